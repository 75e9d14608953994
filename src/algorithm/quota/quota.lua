-- Quotas: their calendar, and their arithmetic.
--
-- A value is `Q<start>:<used>`: the start of the period in microseconds, and the used amount. Both are the state.
-- The arguments: the quota, the cost, and two for the period. The first is its length, or 0 for a month. The second is
-- `use` if the period starts with the first request. Otherwise, it is how far the calendar is ahead of UTC, in
-- microseconds. For weeks, it is three days more, because the epoch was a Thursday. The mark of `undo` is the start of the
-- period that was charged.

local match = string.match

local DAY = 86400000000

-- Returns the first day of the month that contains `day`, and the number of its days. Days count from the epoch. Years
-- begin in March.
local function month(day)
  -- A year that begins in March has its leap day at the end, so the earlier months have the same place in every year.
  local since_march = day + 719468
  local era = floor(since_march / 146097)
  local nth = since_march - era * 146097
  local year = floor((nth - floor(nth / 1460) + floor(nth / 36524) - floor(nth / 146096)) / 365)
  local of_year = nth - (365 * year + floor(year / 4) - floor(year / 100))
  local place = floor((5 * of_year + 2) / 153)
  local first = floor((153 * place + 2) / 5)
  local days = floor((153 * place + 155) / 5) - first
  if place == 11 then
    -- February, the last month. It belongs to the next calendar year.
    year = year + 1
    days = (year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)) and 29 or 28
  end
  return day - of_year + first, days
end

-- Returns the start and the end of the period that contains an instant. A period that began before 1970 starts at the
-- epoch.
local function period(at, member)
  local length, shift = member.length, member.shift
  if not shift then
    return at, at + length
  elseif length == 0 then
    local first, days = month(floor((at + shift) / DAY))
    local start = first * DAY - shift
    return math.max(start, 0), start + days * DAY
  end
  local start = at - (at + shift) % length
  return math.max(start, 0), start + length
end

-- Returns the beginning of the values of a period.
local function prefix_of(start)
  return 'Q' .. format(whole, start) .. ':'
end

local function load(key, member)
  local stored = call('GET', key)
  if not stored then
    return false, member.fresh, 0
  end
  local start, used = member.fresh, nil
  if sub(stored, 1, member.prefix_length) == member.prefix then
    -- Almost always, the value is of the current period. Comparing its first characters is faster than a pattern.
    used = match(stored, '^%d+$', member.prefix_length + 1)
  else
    start, used = match(stored, '^Q(%d+):(%d+)$')
    start = tonumber(start)
  end
  used = tonumber(used)
  if not (used and start < END and used < 4294967296) then
    error(BROKEN_VALUE, 0)
  end
  return stored, start, used
end

local function keep(key, start, used, member)
  if used == 0 then
    call('DEL', key)
  elseif start == member.fresh then
    call('SET', key, member.prefix .. format(whole, used), 'PX', ttl(member.fresh_ends))
  else
    local _, ends = period(start, member)
    call('SET', key, prefix_of(start) .. format(whole, used), 'PX', ttl(ends))
  end
end

-- Returns the start of the period and the amount that counts: nothing if the stored period has ended. Its end is computed
-- from the stored start, under the limit in force. So a client does not get a second quota when the clock steps back across
-- midnight.
local function counting(start, used, member)
  if start == member.fresh then
    return start, used
  elseif used > 0 then
    local _, ends = period(start, member)
    if now < ends then
      return start, used
    end
  end
  return member.fresh, 0
end

local function spend(start, used, member)
  local period_start, counted = counting(start, used, member)
  if counted + member.cost > member.quota then
    return nil
  elseif member.cost == 0 then
    return start, used
  end
  return period_start, counted + member.cost
end

local function debit(start, used, member)
  local period_start, counted = counting(start, used, member)
  -- The memory backend stores the amount as an unsigned number of 32 bits. Both must agree.
  local charged = math.min(counted + member.cost, 4294967295)
  if charged == counted then
    return start, used
  end
  return period_start, charged
end

local function refund(start, used, member)
  local period_start, counted = counting(start, used, member)
  if counted == 0 then
    return start, used
  end
  return period_start, math.max(counted - member.cost, 0)
end

-- Refunds a charge, while the period is still the one that was charged.
local function undo(start, used, member, marks)
  if start ~= tonumber(ARGV[marks + member.mark] or 0) then
    return start, used
  end
  return refund(start, used, member)
end

return function(at, verb)
  local member = {
    load = load, ask = spend, keep = keep, quota = tonumber(ARGV[at]), cost = tonumber(ARGV[at + 1]),
    length = tonumber(ARGV[at + 2]), shift = tonumber(ARGV[at + 3]), fresh = 0, fresh_ends = 0, prefix = '', prefix_length = 0,
    votes = true, is_marked = false, seen = false, state = 0, other = 0, changes = false,
  }
  -- The period that contains now, and the beginning of its values.
  member.fresh, member.fresh_ends = period(now, member)
  member.prefix = prefix_of(member.fresh)
  member.prefix_length = #member.prefix
  if verb == 'debit' then
    member.ask = debit
  elseif verb == 'refund' then
    member.ask = refund
  elseif verb == 'undo' then
    member.ask = undo
  end
  return member, at + 4
end
