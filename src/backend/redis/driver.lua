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
  local state, other, changes = question.load(not question.is_reset and call('GET', KEYS[member]), question)
  return state, other, changes or question.is_reset
end

-- The instant from which the lives of keys are counted, in milliseconds.
local begin = math.floor(now / 1000) - grace

local function write(question, state, other)
  local key = KEYS[member]
  local value, last, grows = question.dump(state, other, question)
  if not value then
    call('DEL', key)
  elseif last == math.huge then
    call('SET', key, value)
  else
    -- The remainder is at most 0, so this rounds up.
    local ms = (last - last % -1000) / 1000 - begin
    if not grows then
      call('SET', key, value, 'PX', string.format(whole, ms))
    else
      -- The key gets a longer life than it needs, so that not every unit has to extend it.
      if call('PTTL', key) < ms then
        call('PEXPIRE', key, string.format(whole, ms + math.floor(ms / 8)))
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

-- For each member of a batch of several: its question, its state, whether that has to be stored, the state after the request, and
-- the units.
local asked, states, others, changes, after, after_other, units
if KEYS[2] then
  asked, states, others, changes, after, after_other, units = {}, {}, {}, {}, {}, {}, {}
end

-- Decides a batch of several members, and returns their number.
local function decide_together()
  local passes, size, index = true, 0, filled + 1
  repeat
    member, size = first + size, size + 1
    local question, n = question_of(member), size
    local state, other, has_to_be_stored = read(question)
    local next_state, next_other, taken = nil, nil, nil
    if question.ask then
      next_state, next_other, taken = question.ask(state, other, question)
    end
    if next_state == nil then
      next_state, next_other, taken, passes = state, other, -1, passes and not question.votes
    end
    asked[n], states[n], others[n], changes[n] = question, state, other, has_to_be_stored
    after[n], after_other[n], units[n] = next_state, next_other, taken
  until question.is_last
  for n = 1, size do
    local question, state, other = asked[n], states[n], others[n]
    if passes then
      state, other = after[n], after_other[n]
    end
    if changes[n] or question.writes and (state ~= states[n] or other ~= others[n]) then
      member = first + n - 1
      if question.writes then
        write(question, state, other)
      else
        write(question, states[n], others[n])
      end
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
