-- Does to several buckets what a verb for each says, all or nothing.
--
-- KEYS: the buckets. ARGV: the time; then for each bucket a verb, and
--   the limit's count, the cost and the tolerance in whole microseconds, and what remains of the cost and of the
--   tolerance, in parts of the count; to the tolerance, the wait in line is added for a charge that may wait; for `leave`
--   also what was stored right after the charge, `us` and `frac`, or -1 and 0 if that is not known;
--   or, if it has tiers, a zero, the most and the least units, how many tiers there are, and for each of them the limit,
--   the window, the active period and the cooldown (-1 if infinite), and 1 if it is skippable plus 2 if it slides.
-- Answers whether all that vote fit, the time, and for each bucket what was stored: `us` and `frac`; or what `report`
-- says, and how much is granted.

-- What is stored is `us`, or `us:frac`. A missing bucket is a full one.
local function load(key)
  local stored = redis.call('GET', key)
  if not stored then
    return 0, 0
  end
  local us = tonumber(stored)
  if us then
    return us, 0
  elseif string.sub(stored, 1, 1) == 'T' then
    -- The limit had tiers.
    return 0, 0
  end
  local whole, part = string.match(stored, '^(%d+):(%d+)$')
  return tonumber(whole), tonumber(part)
end

local function charge(us, frac, at)
  local count = tonumber(ARGV[at])
  us, frac = us + ARGV[at + 1], frac + ARGV[at + 3]
  if frac >= count then
    return us + 1, frac - count
  end
  return us, frac
end

local function refund(us, frac, at)
  us, frac = us - ARGV[at + 1], frac - ARGV[at + 3]
  if frac < 0 then
    us, frac = us - 1, frac + ARGV[at]
  end
  if us < now then
    return now, 0
  end
  return us, frac
end

-- A refund into a line: only the last one in it gives its slot back.
local function leave(us, frac, at)
  local was_us, was_frac = us, frac
  if frac >= tonumber(ARGV[at]) then
    frac = ARGV[at] - 1
  end
  local horizon = now + ARGV[at + 2]
  local is_waited_for = us > horizon or us == horizon and frac > tonumber(ARGV[at + 4])
  local is_last = was_us == tonumber(ARGV[at + 5]) and was_frac == tonumber(ARGV[at + 6])
  if us < now or is_waited_for and not is_last then
    return was_us, was_frac
  end
  return refund(us, frac, at)
end

-- The TAT that a verb leaves, or nothing if the cost does not fit.
local function apply(verb, us, frac, at)
  if verb == 'look' then
    return us, frac
  elseif verb == 'reset' then
    return 0, 0
  elseif verb == 'leave' then
    return leave(us, frac, at)
  end
  if us < now then
    if verb == 'refund' then
      return us, frac
    end
    us, frac = now, 0
  elseif frac >= tonumber(ARGV[at]) then
    frac = ARGV[at] - 1
  end
  if verb == 'refund' then
    return refund(us, frac, at)
  end
  local new_us, new_frac = charge(us, frac, at)
  if verb == 'debit' then
    local deepest = now + 2251799813685248
    if new_us < deepest then
      return new_us, new_frac
    elseif us < deepest then
      return deepest, 0
    end
    return us, frac
  end
  local horizon = now + ARGV[at + 2]
  if new_us > horizon or new_us == horizon and new_frac > tonumber(ARGV[at + 4]) then
    return nil
  end
  return new_us, new_frac
end

-- Stores a TAT until it is past, counted from the millisecond that has begun. A full bucket needs no key, except
-- under a client's clock, which may yet step back.
local function store(key, us, frac)
  local last, value, ttl = us, string.format('%.0f', us), grace
  if frac > 0 then
    last, value = us + 1, string.format('%.0f:%.0f', us, frac)
  end
  if last > now then
    ttl = ttl + math.ceil(last / 1000) - math.floor(now / 1000)
  end
  if us > 0 and ttl > 0 then
    redis.call('SET', key, value, 'PX', ttl)
  else
    redis.call('DEL', key)
  end
end

-- Does what a verb says to a bucket with tiers. Returns what there was, how much is granted, and whether it fits.
local function apply_tiers(verb, key, at)
  local most, least = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local bucket = load_tiers(key, at)
  local granted = (verb == 'look' or verb == 'reset') and 0 or plan(bucket, most, least)
  if verb == 'reset' then
    return bucket, granted, function() redis.call('DEL', key) end
  elseif granted > 0 and verb ~= 'vote' then
    return bucket, granted, function() store_tiers(bucket) end
  end
  return bucket, granted
end

local reply, changes, at = {1, now}, {}, 3
for _, key in ipairs(KEYS) do
  local verb, fits, change = ARGV[at - 1], true, nil
  if ARGV[at] == '0' then
    local bucket, granted
    bucket, granted, change = apply_tiers(verb, key, at)
    fits = granted > 0 or verb == 'look' or verb == 'reset'
    reply[#reply + 1], reply[#reply + 2] = report(bucket, tonumber(ARGV[at + 2])), granted
    at = at + 5 + 5 * #bucket
  else
    local us, frac = load(key)
    local new_us, new_frac = apply(verb, us, frac, at)
    fits = new_us ~= nil
    if fits and verb ~= 'vote' and (new_us ~= us or new_frac ~= frac) then
      change = function() store(key, new_us, new_frac) end
    end
    reply[#reply + 1], reply[#reply + 2] = us, frac
    at = at + (verb == 'leave' and 8 or 6)
  end
  if not fits and verb ~= 'offer' then
    reply[1] = 0
  end
  changes[#changes + 1] = change
end
if reply[1] == 1 then
  for _, change in ipairs(changes) do
    change()
  end
end
return reply
