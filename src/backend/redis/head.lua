-- Decides batches, one after the other, each completely or not at all. This file reads the time. The files of the algorithms
-- follow, inside of the function that begins here, and then `driver.lua`.
--
-- KEYS: the bucket of each member of each batch.
-- ARGV: the time in microseconds, or -1 for the server's; the question of each member; and, if batches are repeated, a text with
-- a byte for each member, which for the only one of a batch is the number of batches that are equal to it.
-- A question is a text: the letter of an algorithm; a verb and a zero; a byte of 1 if it votes, plus 2 if it writes, plus 4 if it
-- is the last one of its batch; and, as doubles, the numbers that the file of the algorithm describes. The verbs: `spend`,
-- `debit`, `refund`, `renew`, `look`, which never passes, and `reset`.
-- A batch passes if all its members that vote do. Answers a text of doubles: the time and, for each batch, how many doubles are
-- about it, and these. For each member, they are its units, or -1 if it does not pass, and what its algorithm shows: numbers of
-- the bucket after the change if the batch and the member pass, and of the stored one otherwise.
-- If batches cannot be decided, the answer is a list: of this text, in which -1 stands alone for each of them, and of their
-- reasons, each with the index of a member from 0 on, and an error. They have changed nothing, unless it begins with `PARTLY`.
--
-- A call that travels alone is common, and a function or a table takes as long as a command to create. So each is created only
-- where a call needs it, and functions of the library are looked up where they are called.
-- All numbers are below 2^53, up to which doubles are exact.

-- A client's clock may differ from the server's, so keys that are written by it live ten minutes longer (in milliseconds).
local now, grace = tonumber(ARGV[1]), 600000
if now < 0 then
  local time = redis.pcall('TIME')
  if time.err then
    return redis.error_reply('NOTIME ' .. time.err)
  end
  now, grace = time[1] * 1000000 + time[2], 0
end

-- Creates the functions of an algorithm that a verb needs. The first returns the state in a value, or of a missing one, and
-- whether it has to be stored even if the member does not pass. The second does what the verb says: it returns the state after it
-- and the units, or nil if it does not pass. There is none for a verb that never passes. The third appends numbers to the reply,
-- and returns the index of the last one. The fourth returns the value of a state and the instant until which it counts, or nil
-- for a bucket that is full, and whether the value is only the end that the stored one lacks. A state is two values, which never
-- change. Questions about a bucket share it, so it contains nothing that depends on one of them.
local function algorithm(letter, verb)
  -- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough.
  local function digits(number)
    return string.format(string.format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f', number)
  end

