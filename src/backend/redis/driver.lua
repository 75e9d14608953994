-- The rest of the driver, which `head.lua` describes.

-- By number, the terms: their numbers, and the functions of their algorithm.
local terms, made, base = {}, {}, 3 + ARGV[2]
for i = 1, ARGV[2] do
  local text = ARGV[2 + i]
  local letter, verb, mode, at = unpack('<c1sB', text)
  local by = made[letter] or algorithms[letter]()
  local term = {
    get = call, load = by.load, ask = by[verb], show = by.show, dump = by.dump, votes = mode % 2 == 1, writes = mode > 1,
    unpack('<' .. rep('d', (#text - at + 1) / 8), text, at),
  }
  if verb == 'look' then
    function term.ask() end
  elseif verb == 'reset' then
    -- It reads nothing, so it also removes a broken value.
    local state, other = by.load(false)
    function term.get() end
    function term.load()
      return term
    end
    function term.ask()
      return state, other, 0
    end
  end
  terms[i], made[letter] = term, by
end

-- By the number of a key, the states of buckets, and for those that have changed the term that knows how to write them.
local states, others, changed = {}, {}, {}
local members, reply, errors, filled, first, nth = ARGV[base], {now}, {}, 1, 0, 0
local total = members and #members / 12 or #KEYS

-- Decides the next batch of several members, each of which has its key, its term, and the state and the units to which it leads.
local decide_together = members and function(batch)
  local size, passes, at, number = 0, true, filled, 0
  repeat
    size, nth = size + 1, nth + 1
    local key, term, member = 0, nil, batch[size] or {key = 0, term = 0, state = 0, other = 0, units = 0}
    key, number = unpack('<I4i4', members, 12 * nth - 11)
    term = terms[number] or terms[-number]
    if states[key] == nil then
      states[key], others[key] = term.load(term.get('GET', KEYS[key]))
    end
    member.state, member.other, member.units = term.ask(states[key], others[key], term, ARGV[base + nth])
    batch[size], member.key, member.term = member, key, term
    passes = passes and (member.state ~= nil or not term.votes)
  until number > 0
  for i = 1, size do
    local member = batch[i]
    local key, term, state, other = member.key, member.term, member.state, member.other
    reply[at + 1] = state ~= nil and member.units or -1
    if state == nil or not passes then
      state, other = states[key], others[key]
    end
    at = term.show(state, other, term, reply, at + 1)
  end
  -- Only now, because a broken value can be found that late.
  for i = 1, passes and size or 0 do
    local member = batch[i]
    local key, term, state, other = member.key, member.term, member.state, member.other
    if term.writes and state ~= nil and (state ~= states[key] or other ~= others[key]) then
      states[key], others[key], changed[key] = state, other, term
    end
  end
  filled = at
end

-- Decides the batches that are left. Most have one member, for which this does the same in less time.
local function decide()
  local KEYS, ARGV, members, terms, states, others, reply, batch = KEYS, ARGV, members, terms, states, others, reply, {}
  local key, number, count = 0, 1, 1
  while nth < total do
    key, first = nth + 1, nth
    if members then
      key, number, count = unpack('<I4i4I4', members, 12 * nth + 1)
    end
    if number < 0 then
      decide_together(batch)
    else
      nth = nth + 1
      local term, state, other, at = terms[number], states[key], others[key], filled + 1
      local ask, show, writes, mark = term.ask, term.show, term.writes, ARGV[base + nth]
      if state == nil then
        state, other = term.load(term.get('GET', KEYS[key]))
        states[key], others[key] = state, other
      end
      for _ = 1, count do
        local after, after_other, units = ask(state, other, term, mark)
        if after == nil then
          after, after_other, units = state, other, -1
        end
        reply[at] = units
        if show == show_state then
          reply[at + 1], reply[at + 2], at = after, after_other, at + 3
        else
          at = show(after, after_other, term, reply, at) + 1
        end
        if writes then
          state, other = after, after_other
        end
      end
      if writes and (state ~= states[key] or other ~= others[key]) then
        states[key], others[key], changed[key] = state, other, term
      end
      filled = at - 1
    end
  end
end

-- The error of a bucket fails its batch only.
while nth < total do
  local done, raised = pcall(decide)
  if not done then
    errors[#errors + 1] = (type(raised) == 'table' and raised.err or raised) .. ' ' .. nth - first
    local number, count = 1, 1
    repeat
      if members then
        number, count = unpack('<i4I4', members, 12 * nth - 7)
      end
      nth = number < 0 and nth + 1 or nth
    until number > 0
    for _ = 1, count do
      filled = filled + 1
      reply[filled] = -1 - #errors
    end
  end
end

-- Appends to the value of a bucket, whose key lives longer than it needs, so that not each unit moves its end.
local try = redis.pcall
local function append(key, text, ms)
  local left = try('PTTL', key)
  local answer = type(left) == 'number' and left < ms and try('PEXPIRE', key, format(whole, ms + floor(ms / 8))) or left
  answer = type(answer) == 'number' and try('APPEND', key, text) or answer
  return type(answer) == 'number' and 1 or answer
end

local lifetime, lifetime_text, has_written, refusal, milli = -1, '', false, '', floor(now / 1000) - grace
for i = 1, #KEYS do
  local key, term = KEYS[i], changed[i]
  if term then
    local text, last, grows = term.dump(states[i], others[i], term)
    -- The remainder is at most 0, so this rounds up.
    local ms, answer = text and last < huge and (last - last % -1000) / 1000 - milli, nil
    if ms and ms ~= lifetime then
      lifetime, lifetime_text = ms, format(whole, ms)
    end
    if not text then
      answer = try('DEL', key)
    elseif grows then
      answer = append(key, text, ms)
    elseif ms then
      answer = try('SET', key, text, 'PX', lifetime_text)
    else
      answer = try('SET', key, text)
    end
    if answer ~= 0 and answer ~= 1 and answer.err then
      -- A server that takes no writes refuses the first one. Of a later one, it is not known what the others have done.
      refusal = has_written and error('PARTLY ' .. answer.err, 0) or answer.err
      break
    end
    has_written = true
  end
end
local numbers = {}
for from = 1, filled, 200 do
  local to = min(from + 199, filled)
  numbers[#numbers + 1] = pack('<' .. rep('d', to - from + 1), list(reply, from, to))
end
return {table.concat(numbers), refusal, list(errors)}
