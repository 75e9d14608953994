-- The errors for a value that this crate has not written, and for a value of another type. They concern only the bucket.
local BROKEN_VALUE, BROKEN_TYPE = 'BROKEN value', 'BROKEN type'
-- All stored numbers are below 2^53, up to which Lua's numbers are exact.
local END = 9007199254740992

-- Returns the error for an answer that is not a value.
local function fault_of_answer(answer)
  return string.find(answer.err, 'WRONGTYPE', 1, true) and BROKEN_TYPE or answer.err
end

-- Reads the value of a GCRA bucket that is not simply a number of 16 digits, which are read without this function. Returns
-- `us`, `frac` and an error. The value is `us:frac`, or one that this crate has not written, which is an error.
local function parse(stored)
  if type(stored) == 'table' then
    return 0, 0, fault_of_answer(stored)
  end
  local us, frac = string.match(stored, '^(%d+):(%d+)$')
  us, frac = tonumber(us or string.match(stored, '^%d+$')), tonumber(frac or 0)
  if us and us < END and frac < 4294967296 then
    return us, frac
  end
  return 0, 0, BROKEN_VALUE
end

-- Reads the value of a bucket with another algorithm, which begins with the algorithm's letter. Returns the value, which is
-- empty if there is no bucket, and an error.
local function read_text(stored, letter)
  if not stored then
    return ''
  elseif type(stored) == 'table' then
    return '', fault_of_answer(stored)
  elseif string.sub(stored, 1, 1) == letter then
    return stored
  end
  return '', BROKEN_VALUE
end

