-- Decides batches, one after the other. Each member of a batch has a verb, which says what to do to the member's
-- bucket. A batch is applied completely or not at all.
--
-- KEYS: the buckets of all members, run after run. A run is one batch, or several equal ones in a row of one member each.
-- ARGV: the number of kinds of batches, and the kinds; then for each run a number, and the marks of its members. A kind is
-- the time (the client's, or -1 for the server's), the number of members, and for each member the letter of its
-- algorithm, a verb, and the arguments that the file of the algorithm describes. With `kinds` kinds, the number of a run of
-- `n` batches is its kind, counted from 0, plus `kinds * (n - 1)`. Zeros at the end are left out.
-- The verbs: `spend` charges and votes; `offer` charges without a vote; `vote` votes without charging; `debit` charges
-- even into debt; `refund`; `leave` refunds to a limit with a line; `undo` refunds the charge that has the member's mark;
-- `renew` moves such a charge to now; `reset`; `look` only reads.
-- Answers the server's time, or 0 if no batch depends on it, and then a value for each key: the value that was stored
-- before the run. If not all batches of the run have passed, or if a member has taken less than its cost, the value for
-- each of its keys is an array: the number of batches that have passed, the value, and the number of units that were taken.
-- A report of the algorithm replaces a large value. If a run fails, it has a single array with the text of its error.

-- By letter, the functions that read a member.
local readers = {}

-- Reads a member whose arguments begin at `at`. Returns it, and the place after its arguments.
local function read_member(at)
  local letter, verb = ARGV[at], ARGV[at + 1]
  local read = readers[letter]
  if not read then
    read = algorithms[letter]()
    readers[letter] = read
  end
  local member, after = read(at + 2, verb)
  member.votes, member.is_marked = verb ~= 'offer' and verb ~= 'look', verb == 'undo' or verb == 'renew'
  if verb == 'vote' or verb == 'look' then
    function member.keep() end
  elseif verb == 'reset' then
    -- A reset reads nothing, so it also removes a value that is broken.
    function member.load()
      return false
    end
    function member.ask()
      return true
    end
    function member.keep(key)
      call('DEL', key)
    end
  end
  if verb == 'look' and not member.reports then
    function member.ask(state, other)
      return state, other
    end
  end
  return member, after
end

local kinds, place = {}, 2
for kind = 0, ARGV[1] - 1 do
  local members, marks = {time = ARGV[place], marks = 0}, 0
  if not set_clock(members.time) then
    return {now}
  end
  place = place + 2
  for i = 1, ARGV[place - 1] do
    local member = nil
    member, place = read_member(place)
    if member.is_marked then
      member.mark, marks = marks, marks + 1
    end
    members[i] = member
  end
  kinds[kind], members.marks = members, marks
end

local reply, filled, nth, last = {servers_time}, 1, 0, #KEYS
-- The number of the member that is being decided; whether the batch is being written, and has changed a bucket.
local at_member, is_decided, has_written = 0, false, false

-- Decides the runs that are left. A member has the part of the current batch that concerns it: the value to report, its
-- state as two values, whether it changes, and the number of taken units.
local function decide()
  local KEYS, ARGV, reply, all = KEYS, ARGV, reply, tonumber(ARGV[1])
  while nth < last do
    local kind, count, before, run = kinds[0], 1, nth, ARGV[place]
    place = place + 1
    if run then
      run = tonumber(run)
      kind, count = kinds[run % all], 1 + floor(run / all)
      set_clock(kind.time)
    end
    local size, marks, passed, passes = #kind, place, 0, true
    nth, place, is_decided, has_written = nth + size, place + kind.marks, false, false
    repeat
      for i = 1, size do
        local member, state, other = kind[i], nil, nil
        at_member = i
        if passed == 0 then
          member.seen, state, other = member.load(KEYS[before + i], member, count)
        else
          state, other = member.state, member.other
        end
        local after, other_after, taken, report = member.ask(state, other, member, marks)
        if after == nil then
          passes, member.changes = passes and not member.votes, passed > 0
        else
          member.changes = passed > 0 and member.changes or after ~= state or other_after ~= other
          member.state, member.other = after, other_after
        end
        member.taken, member.report = passed > 0 and taken and member.taken + taken or taken, report
      end
      -- A denial changes nothing. The other batches of the run are equal, so they are denied as well.
      passed = passes and passed + 1 or passed
    until not passes or passed == count
    is_decided = true
    for i = 1, size do
      local member = kind[i]
      if passed > 0 and member.changes then
        member.keep(KEYS[before + i], member.state, member.other, member)
        has_written = true
      end
      local value, taken, report = member.seen, member.taken, count == 1 and member.report
      if report or passed < count or taken and taken ~= member.most * count then
        value = {passed, report or value, taken}
      end
      reply[filled + i] = value
    end
    filled = filled + size
  end
end

-- Returns the text of a raised error. An error of the server begins with its code or, before Redis 7, contains it. Anything
-- else means that the value of a member is broken.
local function text_of(raised)
  local text = type(raised) == 'table' and raised.err or raised
  if string.find(text, 'WRONGTYPE', 1, true) then
    text = BROKEN_TYPE
  elseif not string.find(text, '^BROKEN') then
    if string.find(text, '^%u%u%u') then
      return text
    elseif string.find(text, '%-%u%u%u') then
      return 'ERR ' .. text
    end
    text = BROKEN_VALUE
  end
  return is_decided and text or text .. ' ' .. at_member
end

while nth < last do
  -- A broken value must not fail the batches of other clients in the same call.
  local done, raised = pcall(decide)
  if not done then
    -- If the server refuses writes, it refuses the first one, so nothing has changed.
    if has_written then
      error(raised, 0)
    end
    for i = filled + 2, #reply do
      reply[i] = nil
    end
    reply[filled + 1], filled = {text_of(raised)}, filled + 1
  end
end
return reply
