-- The members of batches. Precedes the algorithms, and `batch.lua`.

local KEYS, ARGV, call = KEYS, ARGV, redis.call
local floor, format, sub = math.floor, string.format, string.sub
-- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough for the time.
local whole = format('%d', END) == '9007199254740992' and '%d' or '%.0f'

-- Loads the value of a bucket, which begins with the letter of its algorithm. Returns it as the reply reports it, and as a
-- text, which is empty if there is no bucket.
local function load_text(key, letter)
  local stored = call('GET', key)
  if not stored then
    return false, ''
  elseif sub(stored, 1, 1) ~= letter then
    error(BROKEN_VALUE, 0)
  end
  return stored, stored
end

-- The last lifetime that was written, as a number and as text. Redis writes numbers with 17 digits, which takes longer
-- than a command.
local lifetime, lifetime_text = -1, ''

-- Returns the lifetime in milliseconds of a bucket that can be forgotten at `last`. Redis counts it from the start of the
-- current millisecond.
local function ttl(last)
  -- The remainder is at most 0, so this rounds up.
  local ms = (last - last % -1000) / 1000 - floor(now / 1000) + grace
  if ms ~= lifetime then
    lifetime, lifetime_text = ms, format(whole, ms)
  end
  return lifetime_text
end

-- By letter, a function that creates the functions of an algorithm. That takes time, so it waits until a batch needs them.
-- It returns a function that reads the arguments of a member with a verb, which begin at a place. That returns the member
-- and the next place. A member is a table, with these functions:
--   `load` reads a bucket. It returns the stored value as the reply reports it, and the state as two values.
--   `ask` decides a request from the state, the member, and the place of the batch's marks. It returns the state afterwards,
--     which is nil if the request does not fit; the number of taken units, if that is not clear from the cost; and a report
--     that replaces the stored value, if that is large. It changes nothing yet. A member without it only reads.
--   `keep` writes the state of a bucket.
local algorithms = {}

