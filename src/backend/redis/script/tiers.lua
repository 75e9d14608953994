-- Buckets with tiers. Precedes `batch.lua` and `grants.lua`.
--
-- A value is `T`, the number of tiers, the time of the last grant, then a record for each tier: the time of its last
-- entry (-1 if it was never entered), the number of kept units, the place of the oldest unit, and the number of places.
-- The places of all tiers follow, tier after tier, each with the time of one unit. A tier without places only counts
-- its units. Times are doubles, which hold them exactly.

-- Locals are faster than the fields of global tables.
local floor, max, min, huge = math.floor, math.max, math.min, math.huge
local pack, unpack, rep, sub = struct.pack, struct.unpack, string.rep, string.sub

-- The bytes before the records, and the bytes of a record.
local HEAD, TIER = 10, 20
-- The largest value, in bytes, that is rewritten as a whole. One command replaces three, and all decisions of a call on
-- the bucket share it.
local SMALL = 256

local function span(text)
  local us = tonumber(text)
  return us < 0 and huge or us
end

local function phase(tier, at)
  local age = at - tier.entry
  if tier.entry < 0 or age > tier.active + tier.cooldown then
    return 'inactive'
  end
  return age <= tier.active and 'active' or 'cooldown'
end

-- Returns the time of a unit. The oldest kept unit is number 0.
local function unit(bucket, tier, nth)
  if tier.places == 0 then
    return tier.entry
  end
  return (unpack('<d', bucket.value, tier.area + 8 * ((tier.oldest + nth) % tier.places)))
end

-- Returns how many of the kept units have left the window. The oldest leave first, so a binary search finds the number:
-- a window of 4096 units takes twelve comparisons.
local function outdated(bucket, tier)
  local low, high = 0, tier.kept
  if tier.places == 0 then
    -- All units count from the entry.
    return bucket.now - tier.entry > tier.window and high or 0
  end
  while low < high do
    local middle = floor((low + high) / 2)
    if bucket.now - unit(bucket, tier, middle) > tier.window then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Returns a bucket with the tiers of a limit, from the arguments that begin at `at`: the number of tiers, and five
-- arguments for each. `read_tiers` sets the fields of its state. Creating them here gives each table its final size:
-- growing it is the most expensive step.
local function new_tiers(at)
  local bucket = {now = 0, value = ''}
  for i = 1, tonumber(ARGV[at]) do
    local a = at + 5 * i - 4
    bucket[i] = {
      limit = tonumber(ARGV[a]), window = span(ARGV[a + 1]), active = span(ARGV[a + 2]),
      cooldown = span(ARGV[a + 3]), kind = tonumber(ARGV[a + 4]),
      entry = -1, kept = 0, oldest = 0, places = 0, area = 0, phase = '', old = 0, used = 0, draws = false, takes = false,
      wants = 0, stay = 0, enters = false,
    }
  end
  return bucket
end

-- Reads the stored value. It is empty if there is no bucket, or if the limit had another algorithm before.
local function read_tiers(bucket, value)
  local stored, at = 0, now
  if value ~= '' then
    stored = string.byte(value, 2)
    -- If the clock has stepped back, decide at the time of the last grant. Otherwise, grants would lie in the future.
    at = max(now, (unpack('<d', value, 3)))
  end
  bucket.now, bucket.value = at, value
  local area = 1 + HEAD + TIER * stored
  for i = 1, #bucket do
    local tier = bucket[i]
    if i <= stored then
      tier.entry, tier.kept, tier.oldest, tier.places = unpack('<dI4I4I4', value, 1 + HEAD + TIER * (i - 1))
    else
      tier.entry, tier.kept, tier.oldest, tier.places = -1, 0, 0, 0
    end
    tier.draws, tier.takes, tier.enters, tier.area = false, false, false, area
    area = area + 8 * tier.places
    tier.phase = phase(tier, at)
    -- A tier above the lowest starts empty each time it is entered.
    if i > 1 and tier.phase == 'inactive' then
      tier.old = tier.kept
    else
      tier.old = outdated(bucket, tier)
    end
    tier.used = tier.kept - tier.old
  end
end

-- Returns the number of units to grant, and sets `takes` of each tier that the grant enters or draws from.
local function plan(bucket, most, least)
  local from, last, granted = 1, 0, 0
  for i = #bucket, 1, -1 do
    if bucket[i].phase == 'active' then
      from = i
      break
    end
  end
  for i = from, #bucket do
    local tier = bucket[i]
    if tier.phase ~= 'cooldown' and granted < most then
      local units = min(max(tier.limit - tier.used, 0), most - granted)
      granted = granted + units
      tier.draws = units
      last = units > 0 and i or last
    elseif tier.phase == 'cooldown' and tier.kind % 2 == 0 then
      -- This tier cannot be skipped, so the tiers above it are out of reach.
      break
    end
  end
  -- No tier has changed yet, so a rejection leaves no trace.
  if granted < least then
    return 0
  end
  for i = from, last do
    bucket[i].takes = bucket[i].draws
  end
  return granted
end

-- Reports the state on which the figures for a request of `least` units depend: for each tier, its oldest units,
-- `least` of them and one more for each unit above a limit that was lowered. Appends the report to `seen`, which has `at`
-- values.
local function report(bucket, least, seen, at)
  for i = 1, #bucket do
    local tier = bucket[i]
    local over = max(tier.used - tier.limit, 0)
    local shown = tier.places > 0 and min(least + over, tier.used) or 0
    local newest = tier.used > 0 and unit(bucket, tier, tier.kept - 1) or 0
    seen[at + 1], seen[at + 2], seen[at + 3], seen[at + 4] = tier.entry, tier.used, newest, shown
    at = at + 4
    for nth = 0, shown - 1 do
      seen[at + 1] = unit(bucket, tier, tier.old + nth)
      at = at + 1
    end
  end
  return seen
end

-- Returns the stored times of consecutive units. The places are a ring, so the units can be in two parts.
local function times(bucket, tier, nth, units)
  if tier.places == 0 then
    return rep(pack('<d', tier.entry), units)
  end
  local place = (tier.oldest + nth) % tier.places
  local straight = min(units, tier.places - place)
  local from = tier.area + 8 * place
  return sub(bucket.value, from, from + 8 * straight - 1)
    .. sub(bucket.value, tier.area, tier.area + 8 * (units - straight) - 1)
end

-- Returns the whole value. Unused places at the end are left out.
local function write_anew(bucket)
  local head, areas, before = '', '', 0
  for i = 1, #bucket do
    local tier = bucket[i]
    local kept, oldest, area = tier.kept, tier.oldest, ''
    if tier.takes then
      kept, oldest = tier.stay + tier.takes, 0
      if tier.wants > 0 then
        area = times(bucket, tier, tier.kept - tier.stay, tier.stay)
          .. rep(pack('<d', bucket.now), tier.takes)
      end
    elseif tier.places > 0 then
      area = sub(bucket.value, tier.area, tier.area + 8 * tier.places - 1)
    end
    head = head .. pack('<dI4I4I4', tier.enters and bucket.now or tier.entry, kept, oldest, tier.wants)
    if #area > 0 then
      areas = areas .. rep('\0', before - #areas) .. area
    end
    before = before + 8 * tier.wants
  end
  return 'T' .. string.char(#bucket) .. pack('<d', bucket.now) .. head .. areas
end

-- Writes the head and the new units, however large the value is. If the server refuses writes, it refuses the first
-- command, so the value never changes halfway.
local function write_into(key, bucket)
  local first = redis.pcall('SETRANGE', key, 2, pack('<d', bucket.now))
  if type(first) == 'table' then
    return first.err
  end
  for i = 1, #bucket do
    local tier = bucket[i]
    if tier.takes then
      local places = max(tier.places, 1)
      local oldest = (tier.oldest + tier.kept - tier.stay) % places
      local place, left = (oldest + tier.stay) % places, tier.places > 0 and tier.takes or 0
      while left > 0 do
        local units = min(left, places - place)
        local new = rep(pack('<d', bucket.now), units)
        redis.call('SETRANGE', key, tier.area - 1 + 8 * place, new)
        place, left = 0, left - units
      end
      local entry = tier.enters and bucket.now or tier.entry
      local part = pack('<dI4I4I4', entry, tier.stay + tier.takes, oldest, tier.places)
      redis.call('SETRANGE', key, HEAD + TIER * (i - 1), part)
    end
  end
end

-- Returns the instant from which no decision depends on the bucket.
local function lapses(bucket)
  local last, lowest = 0, bucket[1]
  for i = 1, #bucket do
    local tier = bucket[i]
    local entry = tier.enters and bucket.now or tier.entry
    if entry >= 0 and (i > 1 or tier.active < huge) then
      last = max(last, entry + tier.active + tier.cooldown + 1)
    end
  end
  if lowest.takes and lowest.takes > 0 then
    last = max(last, bucket.now + lowest.window + 1)
  elseif lowest.used > 0 then
    last = max(last, unit(bucket, lowest, lowest.kept - 1) + lowest.window + 1)
  end
  return last
end

-- Sets how many units each tier keeps (`stay`) and how many places it needs (`wants`). Returns whether the stored value
-- has these places already, so that it can be changed in place.
local function settle(bucket)
  -- The places of a tier are a ring with as many places as its limit. A changed limit needs a ring of another size.
  local fits = #bucket.value > SMALL and string.byte(bucket.value, 2) == #bucket
  for i = 1, #bucket do
    local tier = bucket[i]
    tier.wants, tier.stay = tier.places, tier.kept
    if tier.takes then
      tier.wants, tier.stay = tier.kind >= 2 and tier.limit or 0, tier.used
      tier.enters = tier.phase == 'inactive'
    end
    if tier.takes and tier.wants > 0 then
      tier.stay = min(tier.used, tier.wants - tier.takes)
    end
    fits = fits and tier.wants == tier.places
  end
  return fits
end
