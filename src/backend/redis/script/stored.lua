-- Reads a value that is not a plain number. Returns `us`, `frac`, an error and a text. The value is `us:frac`, the text
-- of another algorithm (which means a full bucket for this one), or a value that this crate has not written, which is
-- an error.
local function parse(stored)
  if type(stored) == 'table' then
    return 0, 0, stored.err
  end
  local us, frac = string.match(stored, '^(%d+):(%d+)$')
  if us then
    return tonumber(us), tonumber(frac), nil, ''
  elseif string.find(stored, '^[TWQ]') then
    return 0, 0, nil, stored
  end
  return 0, 0, 'ERR not a bucket'
end

