-- Spends from one bucket. Does the same as `batch.lua` for one `spend`, in two thirds of the time.
--
-- ARGV: the time; the limit's count; the cost and the tolerance in whole microseconds; the remainders of both, in parts
-- of the count. Zeros at the end are left out.
-- Answers whether the cost fits, the time, and `us` and `frac` as stored before.

if not set_clock(ARGV[1]) then
  return {0, now}
end

local stored_us, stored_frac, fault = 0, 0, nil
local stored = redis.call('GET', KEYS[1])
if stored then
  stored_us = tonumber(stored)
  if not (stored_us and stored_us >= 1e15 and stored_us < END and #stored == 16) then
    stored_us, stored_frac, fault = parse(stored)
  end
  if fault then
    return redis.error_reply(fault)
  end
end

-- Answer with the stored value as it was. The caller computes the figures from this value, and checks that it reaches
-- the same decision.
local count, us, frac = tonumber(ARGV[2]), stored_us, stored_frac
if us < now then
  us, frac = now, 0
elseif frac >= count then
  frac = count - 1
end
us, frac = us + ARGV[3], frac + (ARGV[5] or 0)
if frac >= count then
  us, frac = us + 1, frac - count
end
-- Compare in two parts, because a double would round the sum of a time and a fraction. Equality is allowed.
local horizon = now + ARGV[4]
if us > horizon or us == horizon and frac > tonumber(ARGV[6] or 0) then
  return {0, now, stored_us, stored_frac}
end

local last, value = us, string.format('%.0f', us)
if frac > 0 then
  last, value = us + 1, string.format('%.0f:%.0f', us, frac)
end
-- Redis counts a key's lifetime from the start of the current millisecond.
local ttl = math.ceil(last / 1000) - math.floor(now / 1000)
redis.call('SET', KEYS[1], value, 'PX', ttl + grace)
return {1, now, stored_us, stored_frac}
