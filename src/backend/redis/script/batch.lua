-- Does to several buckets what a verb for each says, all or nothing.
--
-- KEYS: the buckets. ARGV: the time in microseconds, or -1 for the server's; then for each bucket
--   a verb, the limit's count, the cost and the tolerance in whole microseconds,
--   and what remains of the cost and of the tolerance, in parts of the count.
-- Answers whether all that vote fit, the time, and for each bucket what was stored: `us` and `frac`.
--
-- Times stay below 2^53, up to which Lua's numbers are exact.

local now, grace = tonumber(ARGV[1]), 600000
if now < 0 then
  local time = redis.call('TIME')
  now, grace = time[1] * 1000000 + time[2], 0
end
if now >= 4503599627370496 then
  return {0, now}
end

-- What is stored is `us`, or `us:frac`. A missing bucket is a full one.
local function load(key)
  local stored = redis.call('GET', key)
  if not stored then
    return 0, 0
  end
  local us = tonumber(stored)
  if us then
    return us, 0
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

-- The TAT that a verb leaves, or nothing if the cost does not fit.
local function apply(verb, us, frac, at)
  if verb == 'look' then
    return us, frac
  elseif verb == 'reset' then
    return 0, 0
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

local reply, changes = {1, now}, {}
for i, key in ipairs(KEYS) do
  local at = 6 * i - 3
  local verb = ARGV[at - 1]
  local us, frac = load(key)
  reply[2 * i + 1], reply[2 * i + 2] = us, frac
  local new_us, new_frac = apply(verb, us, frac, at)
  if not new_us then
    if verb ~= 'offer' then
      reply[1] = 0
    end
  elseif verb ~= 'vote' and (new_us ~= us or new_frac ~= frac) then
    changes[#changes + 1] = {key, new_us, new_frac}
  end
end
if reply[1] == 1 then
  for _, change in ipairs(changes) do
    store(unpack(change))
  end
end
return reply
