-- Spends from buckets with tiers for many callers. Decides each spend separately, as for batches. Loads each bucket
-- once, and writes it once unless its value is large.
--
-- KEYS: the bucket of each run of equal spends. The runs of one bucket are adjacent, in the order of the calls.
-- ARGV: as in `spends.lua` of GCRA, but a kind is the most and the fewest units to grant, the number of tiers, and five
-- arguments for each tier, as in `member.lua`.
-- Answers the time, and for each bucket the value as stored before, which is empty if there is no bucket. If not all
-- units were granted, the answer is an array of the number of granted units, the value, and 0. If the bucket cannot be
-- written, the text of the error replaces the number. If it cannot be read, the array only has the text.
-- A large value is not part of the answer. Instead, the array has for each spend the report by `tiers.lua` and the number
-- of granted units, or the text of an error alone.

if not set_clock(ARGV[1]) then
  return {now}
end

local KEYS, ARGV = KEYS, ARGV
local try, pcall, ceil, format = pcall, redis.pcall, math.ceil, string.format
-- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough for the time.
local whole = format('%d', now) == format('%.0f', now) and '%d' or '%.0f'

-- Reads the kind whose arguments begin at `at`. Returns the kind, and the place after its arguments. The table of a kind's
-- tiers is used for one bucket after the other.
local function read_kind(at)
  local tiers = new_tiers(at + 2)
  return {most = tonumber(ARGV[at]), least = tonumber(ARGV[at + 1]), tiers = tiers}, at + 3 + 5 * #tiers
end

local first, runs = read_kind(2)
local kinds, all = {[0] = first}, tonumber(ARGV[runs] or 1)
for kind = 1, all - 1 do
  kinds[kind], runs = read_kind(runs + 1)
  runs = runs - 1
end

-- Returns the stored value of a bucket, which is empty if there is none, or an error.
local function load(key)
  return read_text(pcall('GET', key), 'T')
end

-- The start of the current millisecond, less the grace, and the last lifetime that was written, as a number and as text.
local since, lifetime, ttl = floor(now / 1000) - grace, -1, ''

-- Returns the lifetime in milliseconds of a bucket that can be forgotten at `last`.
local function ttl_until(last)
  local ms = ceil(last / 1000) - since
  if ms ~= lifetime then
    lifetime, ttl = ms, format(whole, ms)
  end
  return ttl
end

-- Writes a value. Returns an error if the server refuses that.
local function store(key, value, last)
  if last == huge then
    return pcall('SET', key, value).err
  end
  return pcall('SET', key, value, 'PX', ttl_until(last)).err
end

-- Writes the grant from a large value in place. Returns an error if the server refuses that.
local function store_in_place(key, tiers, state)
  local refused, last = write_into(key, tiers, state), lapses(tiers, state)
  if refused then
    return refused
  elseif last == huge then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, ttl_until(last))
  end
end

-- The kind of each spend from the current bucket, and two tables for its states, which take turns.
local spends, one, two = {}, {}, {}

-- Decides the spends from a small value, in order. Writes the bucket once. Returns the answer.
local function decide_small(key, stored, count)
  local value, filled, last, granted, asked = stored, 0, 0, 0, 0
  local tiers, state, denied, width, is_changed = nil, nil, nil, 0, false
  for spend = 1, count do
    local kind = spends[spend]
    if #kind.tiers ~= width then
      if is_changed then
        value, is_changed = write_tiers(tiers, state, filled), false
      end
      width, state, filled = #kind.tiers, read_tiers(kind.tiers, value)
    end
    tiers, asked = kind.tiers, asked + kind.most
    -- A denial changes nothing, so an equal spend does not fit either.
    local units = kind ~= denied and plan(tiers, state, kind.most, kind.least) or 0
    if units > 0 then
      last, granted, denied = lapses(tiers, state), granted + units, nil
      local within = not state.value and take_within(tiers, state, filled)
      if within then
        filled = within
      else
        state, filled = take(tiers, state, state == one and two or one)
      end
      is_changed = true
    else
      denied = kind
    end
  end
  local refused = nil
  if granted > 0 then
    refused = store(key, is_changed and write_tiers(tiers, state, filled) or value, last)
  end
  if granted == asked and not refused then
    return stored
  end
  return {refused or granted, stored, 0}
end

-- Decides a spend from a large value, and writes the bucket. Returns the answer, and whether the bucket has changed.
local function decide_large(key, stored, kind)
  local tiers = kind.tiers
  local state, refused = read_tiers(tiers, stored), nil
  local granted = plan(tiers, state, kind.most, kind.least)
  local answer = {report(tiers, state, kind.least, {tiers.at, 0, 0, 0, 0}, 1), granted}
  if granted == 0 then
    return answer, false
  elseif fits(tiers, state, stored) then
    refused = store_in_place(key, tiers, state)
  else
    local last = lapses(tiers, state)
    refused = store(key, write_tiers(tiers, take(tiers, state, one)), last)
  end
  return refused and {refused} or answer, not refused
end

-- Decides the spends from a bucket, in order. Returns the answer.
local function decide(key, count)
  local stored, fault = load(key)
  if fault then
    return {fault}
  elseif #stored <= SMALL then
    return decide_small(key, stored, count)
  end
  local answers, has_changed = {}, false
  for spend = 1, count do
    if has_changed then
      stored = load(key)
    end
    answers[spend], has_changed = decide_large(key, stored, spends[spend])
  end
  return answers
end

local reply, nth, at, key = {now}, 1, 2, KEYS[1]
while key do
  local bucket, count = key, 0
  repeat
    local run = tonumber(ARGV[runs + nth] or 0)
    local kind = kinds[run % all]
    for _ = 0, floor(run / all) do
      count = count + 1
      spends[count] = kind
    end
    nth = nth + 1
    key = KEYS[nth]
  until key ~= bucket
  -- A broken value must not fail the spends of other clients in the same call.
  local done, answer = try(decide, bucket, count)
  if not done then
    answer = {error_of(answer)}
  end
  reply[at], at = answer, at + 1
end
return reply
