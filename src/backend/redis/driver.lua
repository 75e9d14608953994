end

-- The number of doubles in the reply; the first member of the batch that is being decided, the one that is read or written, and
-- whether one has been written; and the questions by text, if there are several.
local reply, filled = {now}, 1
local first, member, has_written = 1, 1, false
local questions = KEYS[2] and {}

-- Reads the question of a member. A reset does not read the bucket, so it also removes a broken value.
local function question_of(index)
  local text = ARGV[index + 1]
  local question = questions and questions[text]
  if not question then
    local letter, verb, mode, at = struct.unpack('<c1sB', text)
    local load, ask, show, dump = algorithm(letter, verb)
    question = {
      load = load, ask = ask, show = show, dump = dump, is_reset = verb == 'reset',
      votes = mode % 2 == 1, writes = mode % 4 > 1, is_last = mode > 3,
      struct.unpack('<' .. string.rep('d', (#text - at + 1) / 8), text, at),
    }
    if questions then
      questions[text] = question
    end
  end
  return question
end

-- Returns the state of a member's bucket, and whether it has to be stored in any case.
local function read(question)
  local state, other, changes = question.load(not question.is_reset and redis.call('GET', KEYS[member]), question)
  return state, other, changes or question.is_reset
end

local function write(question, state, other)
  local call, key = redis.call, KEYS[member]
  local value, last, grows = question.dump(state, other, question)
  if not value then
    call('DEL', key)
  elseif last == math.huge then
    call('SET', key, value)
  else
    -- The remainder is at most 0, so this rounds up. Redis writes numbers with all their digits.
    local ms = (last - last % -1000) / 1000 - math.floor(now / 1000) + grace
    if not grows then
      call('SET', key, value, 'PX', ms)
    else
      -- The key gets a longer life than it needs, so that not every unit has to extend it.
      if call('PTTL', key) < ms then
        call('PEXPIRE', key, ms + math.floor(ms / 8))
      end
      call('APPEND', key, value)
    end
  end
  has_written = true
end

-- Decides equal batches of one member. Their bucket is read and written once.
local function decide_alone(question, times)
  local state, other, changes = read(question)
  local ask, show, index = question.ask, question.show, filled
  for _ = 1, times do
    local start, after, after_other, units = index + 1, nil, nil, nil
    if ask then
      after, after_other, units = ask(state, other, question)
    end
    if after == nil then
      after, after_other, units = state, other, -1
    end
    reply[start + 1] = units
    index = show(after, after_other, question, reply, start + 1)
    reply[start] = index - start
    if question.writes and (after ~= state or after_other ~= other) then
      state, other, changes = after, after_other, true
    end
  end
  if changes then
    write(question, state, other)
  end
  filled = index
end

-- Decides a batch of several members, and returns their number.
local decide_together = KEYS[2] and function()
  -- For each member: its state, whether that has to be stored, the state after the request, and the units.
  local states, others, changes, after, after_other, units = {}, {}, {}, {}, {}, {}
  local passes, size, index = true, 0, filled + 1
  repeat
    member, size = first + size, size + 1
    local question, n = question_of(member), size
    states[n], others[n], changes[n] = read(question)
    if question.ask then
      after[n], after_other[n], units[n] = question.ask(states[n], others[n], question)
    end
    if after[n] == nil then
      after[n], after_other[n], units[n], passes = states[n], others[n], -1, passes and not question.votes
    end
  until question.is_last
  for n = 1, size do
    member = first + n - 1
    local question, state, other = question_of(member), states[n], others[n]
    if passes then
      state, other = after[n], after_other[n]
    end
    if question.writes and (state ~= states[n] or other ~= others[n]) then
      states[n], others[n], changes[n] = state, other, true
    end
    if changes[n] then
      write(question, states[n], others[n])
    end
    reply[index + 1] = units[n]
    index = question.show(state, other, question, reply, index + 1)
  end
  reply[filled + 1] = index - filled - 1
  filled = index
  return size
end

local repeats = ARGV[#KEYS + 2]

-- Decides the batches from the first one on.
local function decide()
  while first <= #KEYS do
    local question = question_of(first)
    member, has_written = first, false
    if question.is_last then
      decide_alone(question, repeats and string.byte(repeats, first) or 1)
      first = first + 1
    else
      first = first + decide_together()
    end
  end
end

local reasons
repeat
  local done, problem = pcall(decide)
  if not done then
    -- The batch and those that are equal to it cannot be decided.
    local text, offset = type(problem) == 'table' and problem.err or problem, member - first
    while not question_of(first).is_last do
      first = first + 1
    end
    reasons = reasons or {''}
    for _ = 1, repeats and string.byte(repeats, first) or 1 do
      filled = filled + 1
      reply[filled], reasons[#reasons + 1] = -1, offset .. (has_written and ' PARTLY ' or ' ') .. text
    end
    first = first + 1
  end
until done

-- Lua passes at most 8000 numbers to a function.
local text = ''
for from = 1, filled, 2000 do
  local to = math.min(from + 1999, filled)
  text = text .. struct.pack('<' .. string.rep('d', to - from + 1), unpack(reply, from, to))
end
if reasons then
  reasons[1] = text
end
return reasons or text
