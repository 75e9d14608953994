-- Spends from buckets with tiers for many callers. Decides each spend separately, as `batch.lua` does. Loads each bucket
-- once, and writes it once unless its value is large.
--
-- KEYS: the bucket of each run of equal spends. The runs of one bucket are adjacent, in the order of the calls.
-- ARGV: as in `spends.lua`, but a kind is the most and the fewest units to grant, the number of tiers, and five
-- arguments for each tier, as in `batch.lua`.
-- Answers the time, and for each spend the number of granted units, followed by the report by `tiers.lua`. The text of an
-- error replaces the answer to a spend that cannot read or write its bucket.

if not set_clock(ARGV[1]) then
  return {now}
end

local try, pcall, ceil, floor, format, byte = pcall, redis.pcall, math.ceil, math.floor, string.format, string.byte
-- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough for the time.
local whole = format('%d', now) == format('%.0f', now) and '%d' or '%.0f'

-- Reads the kind whose arguments begin at `at`. Returns the kind, and the place after its arguments. The table of a kind's
-- tiers is used for one bucket after the other.
local function read_kind(at)
  local tiers = new_tiers(at + 2)
  return {most = tonumber(ARGV[at]), least = tonumber(ARGV[at + 1]), tiers = tiers}, at + 3 + 5 * #tiers
end

local first, runs = read_kind(2)
local kinds, all = {[0] = first}, tonumber(ARGV[runs] or 1)
for kind = 1, all - 1 do
  kinds[kind], runs = read_kind(runs + 1)
  runs = runs - 1
end

-- Returns the stored value of a bucket, which is empty if there is none, or an error.
local function load(key)
  local stored = pcall('GET', key)
  if not stored then
    return ''
  elseif type(stored) == 'string' and byte(stored, 1) == 84 then
    return stored
  end
  local us = tonumber(stored)
  if us and us >= 0 then
    return ''
  end
  local _, _, fault = parse(stored)
  return '', fault
end

-- Writes a value. Returns an error if the server refuses that.
local function store(key, value, last)
  if last == math.huge then
    return pcall('SET', key, value).err
  end
  local ttl = ceil(last / 1000) - floor(now / 1000) + grace
  return pcall('SET', key, value, 'PX', format(whole, ttl)).err
end

-- Writes the grant from a large value in place. Returns an error if the server refuses that.
local function store_in_place(key, bucket)
  local fault, last = write_into(key, bucket), lapses(bucket)
  if fault then
    return fault
  elseif last == math.huge then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, format(whole, ceil(last / 1000) - floor(now / 1000) + grace))
  end
end

local reply, nth, key = {now}, 1, KEYS[1]
-- The kind and the place of each spend from the current bucket.
local spends, places = {}, {}

-- Answers a spend from a bucket with this value. Returns the bucket if it changes.
local function decide(spend, value)
  local kind = spends[spend]
  local bucket = kind.tiers
  read_tiers(bucket, value)
  local granted, seen = plan(bucket, kind.most, kind.least), nil
  if #bucket == 2 then
    -- A table that is created with enough room does not have to grow.
    seen = {granted, bucket.now, 0, 0, 0, 0, 0, 0, 0, 0}
  else
    seen = {granted, bucket.now, 0, 0, 0, 0}
  end
  reply[places[spend]] = report(bucket, kind.least, seen, 2)
  return granted > 0 and bucket
end

-- Decides the spends from one bucket, in order.
local function decide_all(key, count)
  local stored, fault = load(key)
  local value, last, changed, first = stored, 0, false, 1
  for spend = 1, count do
    local bucket = not fault and decide(spend, value)
    if fault then
      reply[places[spend]] = fault
    elseif bucket and settle(bucket) and not changed then
      local refused = store_in_place(key, bucket)
      if refused then
        reply[places[spend]] = refused
      end
      value, fault = load(key)
      stored, first = value, spend + 1
    elseif bucket then
      value, last, changed = write_anew(bucket), lapses(bucket), true
    end
  end
  local refused = changed and store(key, value, last)
  for spend = first, refused and count or 0 do
    -- Nothing was stored, so each of these spends finds the stored value. Those that would change it get the error.
    if decide(spend, stored) then
      reply[places[spend]] = refused
    end
  end
end

local place = 2
while key do
  local bucket, count = key, 0
  repeat
    local run = tonumber(ARGV[runs + nth] or 0)
    local kind = kinds[run % all]
    for _ = 0, floor(run / all) do
      count = count + 1
      spends[count], places[count], place = kind, place, place + 1
    end
    nth = nth + 1
    key = KEYS[nth]
  until key ~= bucket
  -- A broken value must not fail the spends of other clients in the same call.
  local done, fault = try(decide_all, bucket, count)
  for spend = 1, done and 0 or count do
    reply[places[spend]] = type(fault) == 'table' and fault.err or 'ERR ' .. fault
  end
end
return reply
