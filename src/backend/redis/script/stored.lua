-- The errors for a value that this crate has not written, and for a value of another type. They concern only the bucket.
local BROKEN_VALUE, BROKEN_TYPE = 'BROKEN value', 'BROKEN type'
-- All stored numbers are below 2^53, up to which Lua's numbers are exact.
local END = 9007199254740992

-- Returns the error for an answer that is not a value.
local function fault_of_answer(answer)
  return string.find(answer.err, 'WRONGTYPE', 1, true) and BROKEN_TYPE or answer.err
end

