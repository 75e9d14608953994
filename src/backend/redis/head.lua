-- Decides batches, one after the other, each completely or not at all. This file reads the time. The files of the algorithms
-- follow, inside of the function that begins here, and then `driver.lua`.
--
-- KEYS: for each member of each batch, the key of its bucket.
-- ARGV: the time in microseconds, or -1 for the server's; a question for each member; and, if batches are repeated, a text with a
-- byte for each member. If a batch has one member, its byte is the number of equal batches for which it stands.
--
-- A question is a text: the letter of an algorithm; a verb and a zero; a byte with flags; and, as doubles, the numbers that the
-- file of the algorithm describes. The flags: 1 if the member votes, 2 if it writes, and 4 if it is the last one of its batch.
-- The verbs: `spend`, `debit`, `refund`, `renew`, `reset`, and `look`, which never passes.
--
-- A batch passes if all members that vote pass. The reply is a text of doubles: the time and, for each batch, the number of doubles
-- about it, and these. For each member, they are its units, or -1 if it does not pass, and the numbers that its algorithm shows.
-- They describe the changed bucket if the batch and the member pass, and the stored one otherwise.
-- If batches cannot be decided, the reply is a list: that text, in which a single -1 stands for each such batch, and for each of
-- them the index of a member, from 0 on, and an error. Such a batch has changed nothing, unless its error begins with `PARTLY`.
--
-- A call that travels alone is common, and a function or a table takes as long as a command to create. So each is created only
-- where a call needs it, and most functions of the library are looked up where they are called.
-- All numbers are below 2^53, up to which doubles are exact.

local call = redis.call
-- The format of whole numbers. `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough. Numbers
-- that Redis formats take longer.
local whole = string.format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
local now = tonumber(ARGV[1])
-- A client's clock may differ from the server's, so keys that are written by it live ten minutes longer (in milliseconds).
local grace = 600000
if now < 0 then
  local time = redis.pcall('TIME')
  if time.err then
    return redis.error_reply('NOTIME ' .. time.err)
  end
  now = time[1] * 1000000 + time[2]
  grace = 0
end

-- Creates the functions of an algorithm for a verb, and returns four of them:
-- 1. It reads the state from a value, or returns that of a missing one, and whether it has to be stored even if the member does not
--    pass.
-- 2. It answers the question: it returns the state after that and the units, or nil if the question does not pass. It is missing
--    for a verb that never passes.
-- 3. It appends numbers to the reply, and returns the number of doubles in it.
-- 4. It returns the value of a state and the instant until which it counts, or nil for a full bucket. A third result says that the
--    value is only the end that the stored one lacks.
-- A state is two values. Several questions use it, so it does not depend on one of them, and nothing changes it.
local function algorithm(letter, verb)
