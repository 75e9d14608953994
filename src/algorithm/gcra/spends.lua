-- Spends from many buckets for many callers. Decides each spend separately, as `spend.lua` does. Loads and writes each
-- bucket once, however many spends it has.
--
-- KEYS: the bucket of each run of equal spends. The runs of one bucket are adjacent, in the order of the calls.
-- ARGV: the time; the first kind of spend; the number of kinds; the other kinds; one number for each run. A kind is
-- five arguments: the limit's count, the cost, the tolerance, and the remainders of both. With `kinds` kinds, the
-- number of a run of `n` spends is its kind, counted from 0, plus `kinds * (n - 1)`. Zeros at the end are left out.
-- Answers the time, and for each bucket the number of spends that fit, and `us` and `frac` as stored before. If `frac` is 0
-- and all spends fit, as in most cases, the answer is `us` alone. If a bucket cannot be read, the answer only has the
-- text of the error. If it cannot be written, the text replaces the number.

if not set_clock(ARGV[1]) then
  return {now}
end

local pcall, floor, ceil, format = redis.pcall, math.floor, math.ceil, string.format
-- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough for the time.
local whole = format('%d', now) == format('%.0f', now) and '%d' or '%.0f'

local count, cost, horizon = tonumber(ARGV[2]), tonumber(ARGV[3]), now + ARGV[4]
local cost_frac, horizon_frac = tonumber(ARGV[5] or 0), tonumber(ARGV[6] or 0)
local kinds = tonumber(ARGV[7] or 1)
local runs = 2 + 5 * kinds
local are_alike = ARGV[runs + 1] == nil

-- The last value that was written, and its lifetime. Buckets that were full get the same value from equal spends.
local written_us, written_frac, value, ttl = -1, 0, '', ''
local reply, at, nth, key = {now}, 2, 1, KEYS[1]
while key do
  local us, frac, fault = read_tat(pcall('GET', key))
  local bucket, tat_us, tat_frac, passed, all = key, us, frac, 0, 0
  repeat
    local more = 0
    if not are_alike then
      local run = tonumber(ARGV[runs + nth] or 0)
      local kind = run % kinds
      local terms = kind == 0 and 2 or 3 + 5 * kind
      more = floor(run / kinds)
      count, cost, horizon = tonumber(ARGV[terms]), tonumber(ARGV[terms + 1]), now + ARGV[terms + 2]
      cost_frac, horizon_frac = tonumber(ARGV[terms + 3] or 0), tonumber(ARGV[terms + 4] or 0)
    end
    all = all + more + 1
    for _ = 0, more do
      local new_us, new_frac = charge(tat_us, tat_frac, count, cost, cost_frac, horizon, horizon_frac)
      if not new_us then
        -- A denial changes nothing, and the other spends of the run are equal, so they do not fit either.
        break
      end
      tat_us, tat_frac, passed = new_us, new_frac, passed + 1
    end
    nth = nth + 1
    key = KEYS[nth]
  until key ~= bucket
  -- A bucket that cannot be read fails only its own spends.
  if not fault and passed > 0 then
    if tat_us ~= written_us or tat_frac ~= written_frac then
      local last = tat_us
      written_us, written_frac, value = tat_us, tat_frac, format(whole, tat_us)
      if tat_frac > 0 then
        last, value = tat_us + 1, value .. format(':%.0f', tat_frac)
      end
      ttl = format(whole, ceil(last / 1000) - floor(now / 1000) + grace)
    end
    passed = pcall('SET', bucket, value, 'PX', ttl).err or passed
  end
  if fault then
    reply[at] = {fault}
  else
    reply[at] = frac == 0 and passed == all and us or {passed, us, frac}
  end
  at = at + 1
end
return reply
