-- The calendar and the arithmetic of quotas, for the scripts that use them.
--
-- A value is `Q<start>:<used>`: the start of the period in microseconds, and the used amount.
-- Two arguments describe a period. The first is its length, or 0 for a month. The second is `use` if the period starts
-- with the first request. Otherwise, it is how far the calendar is ahead of UTC, in microseconds. For weeks, it is
-- three days more, because the epoch was a Thursday.

local DAY = 86400000000

-- Returns the first day of the month that contains `day`, and the number of its days. Days count from the epoch. Years
-- begin in March.
local function month(day)
  local floor = math.floor
  -- A year that begins in March has its leap day at the end, so the earlier months have the same place in every year.
  local since = day + 719468
  local era = floor(since / 146097)
  local nth = since - era * 146097
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
local function period(at, length, shift)
  if shift == 'use' then
    return at, at + length
  end
  length = tonumber(length)
  if length == 0 then
    local first, days = month(math.floor((at + shift) / DAY))
    local start = first * DAY - shift
    return math.max(start, 0), start + days * DAY
  end
  local start = at - (at + shift) % length
  return math.max(start, 0), start + length
end

-- Returns the start of the period and the used amount of a value, or an error if this crate has not written it. An empty
-- text has none.
local function read_quota(text)
  if text == '' then
    return 0, 0
  end
  local start, used = string.match(text, '^Q(%d+):(%d+)$')
  start, used = tonumber(start), tonumber(used)
  if not (start and start < END and used < 4294967296) then
    return 0, 0, BROKEN_VALUE
  end
  return start, used
end

-- Returns the part of a stored state that still counts: nothing if the stored period has ended.
local function current(start, used, length, shift)
  -- The end is computed from the stored start, under the limit in force. So a client does not get a second quota when
  -- the clock steps back across midnight.
  if used > 0 then
    local _, ends = period(start, length, shift)
    if now < ends then
      return start, used, ends
    end
  end
  return 0, 0, 0
end

-- Returns whether a request fits and, if it changes the bucket, the new start, the new amount and the end of the
-- period. A refund by receipt names the period that was charged.
local function use(verb, start, used, at)
  local quota, cost, length, shift = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  local is_named, ends = true, 0
  if verb == 'refund' then
    local named = tonumber(ARGV[at + 4])
    is_named = named < 0 or named == start
  end
  start, used, ends = current(start, used, length, shift)
  if verb == 'look' or not is_named then
    return true
  end
  local before = used
  used = verb == 'refund' and math.max(used - cost, 0) or used + cost
  if verb == 'debit' then
    -- The memory backend stores the amount as an unsigned number of 32 bits. Both must agree.
    used = math.min(used, 4294967295)
  elseif verb ~= 'refund' and used > quota then
    return false
  end
  if used == before then
    return true
  elseif used == 0 then
    return true, 0, 0, 0
  elseif before == 0 then
    start, ends = period(now, length, shift)
  end
  return true, start, used, ends
end

