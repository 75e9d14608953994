-- Decides batches, one after the other, each completely or not at all. The buckets are read and written once, however many of
-- the batches are about the same one. The files of the algorithms follow this head, and `driver.lua` follows them.
--
-- KEYS: the buckets, each once.
-- ARGV: the time in microseconds, or -1 for the server's; the number of terms; the terms; the members of all batches; and, if
-- the term of any of them has a mark, the mark of each. The members are a text with three integers of 4 bytes for each: the
-- number of its key; that of its term, which is negative unless the member is the last one of its batch; and, for a batch of one
-- member, the number of batches that are equal to it. Without the text, each key is a batch of term 1.
-- A term is a text: the letter of an algorithm; a verb and a zero; a byte of 1 if it votes, plus 2 if it writes; and, as doubles,
-- the numbers that the file of the algorithm describes. The verbs: `spend`, `debit`, `refund`, `renew`, `look`, which never
-- passes, and `reset`.
-- Answers a text of doubles; the error with which the server refuses to write, in which case nothing has changed, or nothing; and
-- the errors of batches. The doubles are the time, and for each member of each batch its units, or -1 if it does not pass, and
-- the numbers that its algorithm shows: those of the bucket after the change if the batch and the member pass, and of the
-- stored one otherwise. A batch passes if all members that vote do. One with an error has a single number: -1 minus that of the
-- error, which ends with the number of the member that has it.

local KEYS, ARGV, call = KEYS, ARGV, redis.call
local floor, min, max, huge = math.floor, math.min, math.max, math.huge
local byte, format, match, rep, sub = string.byte, string.format, string.match, string.rep, string.sub
local pack, unpack, list = struct.pack, struct.unpack, unpack
-- All numbers are below 2^53, up to which doubles are exact.
local END = 9007199254740992
-- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough for the time.
local whole = format('%d', END) == '9007199254740992' and '%d' or '%.0f'
-- The error for a value that is not a bucket, and for a clock that is outside of the given periods of a calendar.
local BROKEN, CLOCK = 'BROKEN value', 'CLOCK'

-- A client's clock may differ from the server's, so keys that are written by it live ten minutes longer (in milliseconds).
local now, grace = tonumber(ARGV[1]), 600000
if now < 0 then
  local time = call('TIME')
  now, grace = time[1] * 1000000 + time[2], 0
end
-- 2^52, in the year 2112, so that an instant and the longest span stay below 2^53.
if now >= 4503599627370496 then
  return {pack('<d', now), ''}
end

-- By letter, a function that creates an algorithm, once a term needs it: a table with a function for each verb, and these:
-- `load` returns the state in a value, or of a missing one; `show` appends numbers to the reply, and returns the place of the
-- last one; `dump` returns the value of a state and the instant until which it counts, or nil for a bucket that is as new, and
-- whether the value is only the end that the stored one lacks. A verb returns the state after a request and the units, or nil
-- if it does not pass. A state is two values, which never change. All terms share it, so it contains nothing that depends on one.
local algorithms = {}

local function show_state(state, other, _, reply, at)
  reply[at + 1], reply[at + 2] = state, other
  return at + 2
end
