-- The errors for a value that this crate has not written, and for a value of another type. They concern only the bucket.
local BROKEN_VALUE, BROKEN_TYPE = 'BROKEN value', 'BROKEN type'
-- All stored numbers are below 2^53, up to which Lua's numbers are exact.
local END = 9007199254740992

-- Reads a value that is not simply a number of 16 digits. Those are read without this function. Returns `us`, `frac`, an error and a text. The value is `us:frac`, the text
-- of another algorithm (which means a full bucket for this one), or a value that this crate has not written, which is
-- an error.
local function parse(stored)
  if type(stored) == 'table' then
    return 0, 0, string.find(stored.err, 'WRONGTYPE', 1, true) and BROKEN_TYPE or stored.err, ''
  end
  local us, frac = string.match(stored, '^(%d+):(%d+)$')
  us, frac = tonumber(us or string.match(stored, '^%d+$')), tonumber(frac or 0)
  if us and us < END and frac < 4294967296 then
    return us, frac, nil, ''
  elseif string.find(stored, '^[TWQ]') then
    return 0, 0, nil, stored
  end
  return 0, 0, BROKEN_VALUE, ''
end

