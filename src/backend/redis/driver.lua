-- Decides batches, one after the other, each completely or not at all. Each bucket is read and written once, however many of
-- the batches are about it. The files of the algorithms follow this one.
--
-- KEYS: the bucket of each member of each batch.
-- ARGV: the time in microseconds, or -1 for the server's; the term of each member; and, if batches are repeated, a text with a
-- byte for each member, which for the last one of a batch is the number of batches that are equal to it.
-- A term is a text: the letter of an algorithm; a verb and a zero; a byte of 1 if it votes, plus 2 if it writes, plus 4 if it is
-- the last one of its batch; and, as doubles, the numbers that the file of the algorithm describes. The verbs: `spend`, `debit`,
-- `refund`, `renew`, `look`, which never passes, and `reset`.
-- A batch passes if all its members that vote do. Answers a text of doubles: the time and, for each batch, how many doubles are
-- about it, and these. For each member, they are its units, or -1 if it does not pass, and what its algorithm shows: numbers of
-- the bucket after the change if the batch and the member pass, and of the stored one otherwise.
-- If a batch cannot be decided, nothing has changed, and the answer is the error `FAILED`, with the number of the member and the
-- reason. An error of a server that refuses to write is answered as it is: nothing has changed, unless it begins with `PARTLY`.

local KEYS, ARGV, call, try = KEYS, ARGV, redis.call, redis.pcall
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
-- last one; `dump` returns the value of a state and the instant until which it counts, or nil for a bucket that is as new, and
-- whether the value is only the end that the stored one lacks. A verb returns the state after a request and the units, or nil
-- if it does not pass. A state is two values, which never change. Terms share it, so it contains nothing that depends on one.
local algorithms, made, terms = {}, {}, {}

local function show_state(state, other, _, reply, at)
  reply[at + 1], reply[at + 2] = state, other
  return at + 2
end

local function read_term(text)
  local letter, verb, mode, at = unpack('<c1sB', text)
  local by = made[letter] or algorithms[letter]()
  local term = {
    load = by.load, ask = by[verb] or function() end, show = by.show, dump = by.dump, resets = verb == 'reset',
    votes = mode % 2 == 1, writes = mode % 4 > 1, is_last = mode > 3,
    unpack('<' .. rep('d', (#text - at + 1) / 8), text, at),
  }
  terms[text], made[letter] = term, by
  return term
end

-- By key, the states of buckets, and for those that have changed a term that knows how to write them; and the member that is
-- being decided.
local states, others, changed, member = {}, {}, {}, 0
local reply, after, after_other, units = {now}, {}, {}, {}

-- Decides equal batches of one member. Returns the number of doubles in the reply, as the next two functions do.
local function decide_alone(key, term, count, filled)
  local state, other, ask, show, writes = states[key], others[key], term.ask, term.show, term.writes
  for _ = 1, count do
    local start, after, after_other, units = filled + 1, ask(state, other, term)
    if after == nil then
      after, after_other, units = state, other, -1
    end
    reply[start + 1] = units
    filled = show(after, after_other, term, reply, start + 1)
    reply[start] = filled - start
    if writes then
      state, other = after, after_other
    end
  end
  if state ~= states[key] or other ~= others[key] then
    states[key], others[key], changed[key] = state, other, term
  end
  return filled
end

-- Decides a batch of several members. `after`, `after_other` and `units` are what they lead to.
local function decide_together(first, last, filled)
  local passes, start = true, filled + 1
  for i = first, last do
    local key, term = KEYS[i], terms[ARGV[i + 1]]
    member, after[i], after_other[i], units[i] = i, term.ask(states[key], others[key], term)
    passes = passes and (after[i] ~= nil or not term.votes)
  end
  filled = start
  for i = first, last do
    local key, term, state, other, passed = KEYS[i], terms[ARGV[i + 1]], after[i], after_other[i], after[i] ~= nil
    if not (passed and passes) then
      state, other = states[key], others[key]
    elseif term.writes and (state ~= states[key] or other ~= others[key]) then
      states[key], others[key], changed[key] = state, other, term
    end
    reply[filled + 1] = passed and units[i] or -1
    filled = term.show(state, other, term, reply, filled + 1)
  end
  reply[start] = filled - start
  return filled
end

-- Decides all batches.
local function decide()
  if now >= 4503599627370496 then
    -- 2^52, in the year 2112, so that an instant and the longest span stay below 2^53.
    error(CLOCK .. format(whole, now), 0)
  end
  local filled, first, counts = 1, 1, ARGV[#KEYS + 2]
  for i = 1, #KEYS do
    local key, text = KEYS[i], ARGV[i + 1]
    local term = terms[text] or read_term(text)
    member = i
    if states[key] == nil or term.resets then
      -- A reset does not read, so it also removes a broken value.
      states[key], others[key] = term.load(not term.resets and call('GET', key), term)
      changed[key] = term.resets and term or nil
    end
    if term.is_last then
      filled = first < i and decide_together(first, i, filled)
        or decide_alone(key, term, counts and byte(counts, i) or 1, filled)
      first = i + 1
    end
  end
  return filled
end

-- Appends to the value of a bucket, whose key lives longer than it needs, so that not each unit moves its end.
local function append(key, text, ms)
  local left = try('PTTL', key)
  local answer = type(left) == 'number' and left < ms and try('PEXPIRE', key, format(whole, ms + floor(ms / 8))) or left
  return type(answer) == 'number' and try('APPEND', key, text) or answer
end

-- Writes the buckets that have changed. Returns the error of a server that does not.
local function write()
  local has_written, milli = false, floor(now / 1000) - grace
  for key, term in pairs(changed) do
    local text, last, grows = term.dump(states[key], others[key], term)
    local answer
    if not text then
      answer = try('DEL', key)
    elseif last == huge then
      answer = try('SET', key, text)
    else
      -- The remainder is at most 0, so this rounds up.
      local ms = (last - last % -1000) / 1000 - milli
      answer = grows and append(key, text, ms) or try('SET', key, text, 'PX', format(whole, ms))
    end
    if type(answer) == 'table' and answer.err then
      -- A server that takes no writes refuses the first one.
      return {err = (has_written and 'PARTLY ' or '') .. answer.err}
    end
    has_written = true
  end
end

local function run()
  local done, filled = pcall(decide)
  if not done then
    return {err = 'FAILED ' .. member .. ' ' .. (type(filled) == 'table' and filled.err or filled)}
  end
  local refusal, texts = write(), {}
  for from = 1, filled, 200 do
    local to = min(from + 199, filled)
    texts[#texts + 1] = pack('<' .. rep('d', to - from + 1), list(reply, from, to))
  end
  return refusal or table.concat(texts)
end
