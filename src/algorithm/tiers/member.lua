-- Members of batches with tiers. Their arguments: the most and the fewest units to grant; the number of tiers; for each
-- tier the limit, the window, the active period and the cooldown (-1 if infinite), and a sum of 1 if the tier is
-- skippable and 2 if its window slides.
-- The two reported values are the report by `tiers.lua`, and the number of granted units.

local by = {}

function by.terms(at)
  local tiers = new_tiers(at + 2)
  tiers.most, tiers.least = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  return tiers, at + 3 + 5 * #tiers
end

function by.load(key)
  local text, fault = read_text(redis.pcall('GET', key), 'T')
  return {key = key, place = 0, text = text}, fault
end

-- Keeps the grants until no decision depends on them. A large value is written immediately, and loaded again if a later
-- batch needs it.
local function keep_tiers(bucket, tiers, state)
  local last = lapses(tiers, state)
  local ttl = last < huge and math.ceil(last / 1000) - floor(now / 1000) + grace
  if bucket.place > 0 or not fits(tiers, state, bucket.text) then
    bucket.text = write_tiers(tiers, take(tiers, state, {}))
    return change(bucket, text_of, ttl)
  end
  local fault = write_into(bucket.key, tiers, state)
  if fault then
    return fault
  elseif ttl then
    redis.call('PEXPIRE', bucket.key, ttl)
  else
    redis.call('PERSIST', bucket.key)
  end
  buckets[bucket.key] = nil
end
at_once[keep_tiers] = true

function by.ask(verb, bucket, tiers)
  local state = read_tiers(tiers, bucket.text)
  local granted = plan(tiers, state, tiers.most, tiers.least)
  granted = verb == 'look' and 0 or granted
  local seen, passes = report(tiers, state, tiers.least, {tiers.at}, 1), granted > 0 or verb == 'look'
  local takes = granted > 0 and verb ~= 'vote'
  return seen, granted, passes, takes and keep_tiers, tiers, state
end

return by
