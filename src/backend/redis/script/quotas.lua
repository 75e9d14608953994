-- What the scripts need for quotas: the calendar.
--
-- A value is `Q<start>:<used>`: when the period started, in microseconds, and how much of the quota is used. A period is
-- told by two arguments: its length, 0 for a month; and how far its calendar is ahead of UTC's in microseconds, plus three
-- days for weeks, since the epoch was a Thursday; or `use`, if it starts with the first request.

local DAY = 86400000000

-- When the month starts that contains a day, and how many days it has. Days count from the epoch, and years from March.
local function month(day)
  local floor = math.floor
  -- Years that begin in March have their leap day at the end, so that all months before it are at the same place each year.
  local since = day + 719468
  local era = floor(since / 146097)
  local nth = since - era * 146097
  local year = floor((nth - floor(nth / 1460) + floor(nth / 36524) - floor(nth / 146096)) / 365)
  local of_year = nth - (365 * year + floor(year / 4) - floor(year / 100))
  local place = floor((5 * of_year + 2) / 153)
  local first = floor((153 * place + 2) / 5)
  local days = floor((153 * place + 155) / 5) - first
  if place == 11 then
    -- February, the last one. It belongs to the next year of the calendar.
    year = year + 1
    days = (year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)) and 29 or 28
  end
  return day - of_year + first, days
end

-- When the period starts and ends that contains an instant. One that began before 1970 starts then.
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

-- What counts now of a quota: nothing, if its period has ended.
local function current(start, used, length, shift)
  -- By the period that contains the stored start, under the limit in force: a clock that steps back across midnight does
  -- not get a second quota.
  if used > 0 then
    local _, ends = period(start, length, shift)
    if now < ends then
      return start, used, ends
    end
  end
  return 0, 0, 0
end

-- Whether a request fits; and the start and the amount that it leaves and when that ends, if it changes them. A refund by
-- receipt names the period.
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
    -- As in memory, where the amount is an unsigned number of 32 bits.
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

