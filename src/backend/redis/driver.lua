-- Decides batches, one after the other, each completely or not at all. The files of the algorithms follow this one.
--
-- KEYS: the bucket of each member of each batch.
-- ARGV: the time in microseconds, or -1 for the server's; the term of each member; and, if batches are repeated, a text with a
-- byte for each member, which for the only one of a batch is the number of batches that are equal to it.
-- A term is a text: the letter of an algorithm; a verb and a zero; a byte of 1 if it votes, plus 2 if it writes, plus 4 if it is
-- the last one of its batch; and, as doubles, the numbers that the file of the algorithm describes. The verbs: `spend`, `debit`,
-- `refund`, `renew`, `look`, which never passes, and `reset`.
-- A batch passes if all its members that vote do. Answers a text of doubles: the time and, for each batch, how many doubles are
-- about it, and these. For each member, they are its units, or -1 if it does not pass, and what its algorithm shows: numbers of
-- the bucket after the change if the batch and the member pass, and of the stored one otherwise.
-- If batches cannot be decided, the answer is a list: of this text, in which -1 stands alone for each of them, and of their
-- reasons, each with the place of a member from 0 on, and an error. They have changed nothing, unless it begins with `PARTLY`.

local KEYS, ARGV, call = KEYS, ARGV, redis.call
local floor, min, max, huge = math.floor, math.min, math.max, math.huge
local byte, format, match, rep, sub = string.byte, string.format, string.match, string.rep, string.sub
local pack, unpack, list = struct.pack, struct.unpack, unpack
-- All numbers are below 2^53, up to which doubles are exact.
local END = 9007199254740992
-- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough for the time.
local whole = format('%d', END) == '9007199254740992' and '%d' or '%.0f'
-- The errors for a value that is not a bucket, and for a clock that is outside of the given periods of a calendar.
local BROKEN, CLOCK = 'BROKEN value', 'CLOCK '

-- A client's clock may differ from the server's, so keys that are written by it live ten minutes longer (in milliseconds).
local now, grace = tonumber(ARGV[1]), 600000
if now < 0 then
  local time = call('TIME')
  now, grace = time[1] * 1000000 + time[2], 0
end

-- By letter, a function that creates an algorithm, once a term needs it: a table with a function for each verb, and these:
-- `load` returns the state in a value, or of a missing one; `show` appends numbers to the reply, and returns the place of the
-- last one; `dump` returns the value of a state and the instant until which it counts, or nil for a bucket that is full, and
-- whether the value is only the end that the stored one lacks. `adopt`, if there is one, returns the state as the limit in force
-- reads it, which a spend and a debit store even if they are denied. A verb returns the state after a request and the units, or
-- nil if it does not pass. A state is two values, which never change. Terms share it, so it contains nothing that depends on one.
local algorithms, made = {}, {}

local function as_stored(state, other)
  return state, other
end

local function show_state(state, other, _, reply, at)
  reply[at + 1], reply[at + 2] = state, other
  return at + 2
end

-- By text, the terms. A reset does not read, so it also removes a broken value.
local terms = setmetatable({}, {__index = function(terms, text)
  local letter, verb, mode, at = unpack('<c1sB', text)
  local by = made[letter] or algorithms[letter]()
  made[letter], terms[text] = by, {
    load = by.load, ask = by[verb] or function() end, show = by.show, dump = by.dump, reads = verb ~= 'reset',
    adopt = (verb == 'spend' or verb == 'debit') and by.adopt or as_stored,
    votes = mode % 2 == 1, writes = mode % 4 > 1, is_last = mode > 3,
    unpack('<' .. rep('d', (#text - at + 1) / 8), text, at),
  }
  return terms[text]
end})

-- The first member of the batch that is being decided, the one that is read or written, whether one has been written, and the
-- number of doubles in the reply.
local first, member, has_written, filled = 1, 1, false, 1
local reply, answers, repeats, milli = {now}, {''}, ARGV[#KEYS + 2], floor(now / 1000) - grace

local function write(key, term, state, other)
  local text, last, grows = term.dump(state, other, term)
  -- The remainder is at most 0, so this rounds up.
  local ms = text and (last - last % -1000) / 1000 - milli
  if not text then
    call('DEL', key)
  elseif last == huge then
    call('SET', key, text)
  elseif not grows then
    call('SET', key, text, 'PX', format(whole, ms))
  else
    -- The key lives longer than it needs, so that not each unit moves its end.
    if call('PTTL', key) < ms then
      call('PEXPIRE', key, format(whole, ms + floor(ms / 8)))
    end
    call('APPEND', key, text)
  end
  has_written = true
end

-- Decides equal batches of one member, and returns 1. Their bucket is read and written once.
local function decide_alone(term)
  local stored, stored_other = term.load(term.reads and call('GET', KEYS[first]), term)
  local state, other = term.adopt(stored, stored_other, term)
  local ask, show, to = term.ask, term.show, filled
  for _ = 1, repeats and byte(repeats, first) or 1 do
    local start, after, after_other, units = to + 1, ask(state, other, term)
    if after == nil then
      after, after_other, units = state, other, -1
    end
    reply[start + 1] = units
    to = show(after, after_other, term, reply, start + 1)
    reply[start] = to - start
    if term.writes then
      state, other = after, after_other
    end
  end
  if state ~= stored or other ~= stored_other or not term.reads then
    write(KEYS[first], term, state, other)
  end
  filled = to
  return 1
end

-- The states of a batch's members, whether they have to be stored, what they become, and the units.
local states, others, changes, after, after_other, units = {}, {}, {}, {}, {}, {}

-- Decides a batch of several members, and returns their number.
local function decide_together()
  local passes, size, to = true, 0, filled + 1
  repeat
    member, size = first + size, size + 1
    local term, n = terms[ARGV[member + 1]], size
    local stored, stored_other = term.load(term.reads and call('GET', KEYS[member]), term)
    local state, other = term.adopt(stored, stored_other, term)
    local next_state, next_other, taken = term.ask(state, other, term)
    if next_state == nil then
      next_state, next_other, taken, passes = state, other, -1, passes and not term.votes
    end
    states[n], others[n], changes[n] = state, other, state ~= stored or not term.reads
    after[n], after_other[n], units[n] = next_state, next_other, taken
  until term.is_last
  for n = 1, size do
    local term, state, other = terms[ARGV[first + n]], states[n], others[n]
    if passes then
      state, other = after[n], after_other[n]
    end
    if term.writes and (state ~= states[n] or other ~= others[n]) then
      states[n], others[n], changes[n] = state, other, true
    end
    if changes[n] then
      member = first + n - 1
      write(KEYS[member], term, states[n], others[n])
    end
    reply[to + 1] = units[n]
    to = term.show(state, other, term, reply, to + 1)
  end
  reply[filled + 1] = to - filled - 1
  filled = to
  return size
end

local function decide()
  while first <= #KEYS do
    local term = terms[ARGV[first + 1]]
    member, has_written = first, false
    first = first + (term.is_last and decide_alone(term) or decide_together())
  end
end

-- Answers the batch that cannot be decided, and those that are equal to it.
local function fail(problem)
  local text, place = type(problem) == 'table' and problem.err or problem, member - first
  while not terms[ARGV[first + 1]].is_last do
    first = first + 1
  end
  for _ = 1, repeats and byte(repeats, first) or 1 do
    filled = filled + 1
    reply[filled], answers[#answers + 1] = -1, place .. (has_written and ' PARTLY ' or ' ') .. text
  end
  first = first + 1
end

local function run()
  repeat
    local done, problem = pcall(decide)
    if not done then
      fail(problem)
    end
  until done
  local texts = {}
  for from = 1, filled, 200 do
    local to = min(from + 199, filled)
    texts[#texts + 1] = pack('<' .. rep('d', to - from + 1), list(reply, from, to))
  end
  answers[1] = table.concat(texts)
  return #answers > 1 and answers or answers[1]
end
