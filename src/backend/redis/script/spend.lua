-- Spends from one bucket: what `batch.lua` does for one `spend`, in two thirds of the time. Its arguments are
-- the same, without those that are 0 at the end.

local stored_us, stored_frac = 0, 0
local stored = redis.call('GET', KEYS[1])
if stored then
  stored_us = tonumber(stored)
  if not stored_us then
    local whole, part = string.match(stored, '^(%d+):(%d+)$')
    if string.sub(stored, 1, 1) == 'T' then
      -- The limit had tiers.
      whole, part = 0, 0
    end
    stored_us, stored_frac = tonumber(whole), tonumber(part)
  end
end

local count, us, frac = tonumber(ARGV[3]), stored_us, stored_frac
if us < now then
  us, frac = now, 0
elseif frac >= count then
  frac = count - 1
end
us, frac = us + ARGV[4], frac + (ARGV[6] or 0)
if frac >= count then
  us, frac = us + 1, frac - count
end
local horizon = now + ARGV[5]
if us > horizon or us == horizon and frac > tonumber(ARGV[7] or 0) then
  return {0, now, stored_us, stored_frac}
end

local last, value = us, string.format('%.0f', us)
if frac > 0 then
  last, value = us + 1, string.format('%.0f:%.0f', us, frac)
end
-- A key's time counts from the millisecond that has begun.
local ttl = math.ceil(last / 1000) - math.floor(now / 1000)
redis.call('SET', KEYS[1], value, 'PX', ttl + grace)
return {1, now, stored_us, stored_frac}
