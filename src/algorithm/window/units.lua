-- The stored units of windows, for the scripts that use them.
--
-- A value is `W` and the instant at which each unit was taken, in ascending order. Times are doubles, which hold them
-- exactly.

-- Returns the instants of the units in a value, or an error if this crate has not written it. An empty text has none.
local function read_units(text)
  local units, last, unpack = {}, 0, struct.unpack
  if text ~= '' and #text % 8 ~= 1 then
    return nil, BROKEN_VALUE
  end
  for nth = 1, (#text - 1) / 8 do
    local at = unpack('<d', text, 8 * nth - 6)
    if not (at >= last and at < END and at % 1 == 0) then
      return nil, BROKEN_VALUE
    end
    units[nth], last = at, at
  end
  return units
end

