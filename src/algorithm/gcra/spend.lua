-- Spends from one bucket, in less time than the scripts for several.
--
-- ARGV: the time; the limit's count; the cost and the tolerance in whole microseconds; the remainders of both, in parts
-- of the count. Zeros at the end are left out.
-- Answers whether the cost fits, the time, and `us` and `frac` as stored before. The caller computes the figures from
-- these, and checks that it reaches the same decision.

if not set_clock(ARGV[1]) then
  return {0, now}
end

local stored_us, stored_frac, fault = read_tat(redis.call('GET', KEYS[1]))
if fault then
  return redis.error_reply(fault)
end
local us, frac = charge(
  stored_us, stored_frac, tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5] or 0), now + ARGV[4],
  tonumber(ARGV[6] or 0)
)
if not us then
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
