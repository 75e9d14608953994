-- Decides batches one after the other: each does to its buckets what a verb for each says, all or nothing.
--
-- KEYS: the buckets of all members, batch after batch. ARGV: how many batches there are; then for each of them the time
-- (the client's, or -1 for the server's), how many members it has, how many arguments follow, and for each member a verb,
-- and
--   the limit's count, the cost and the tolerance in whole microseconds, and what remains of the cost and of the
--   tolerance, in parts of the count;
--   or, if it has tiers, a zero, the most and the least units, how many tiers there are, and for each of them the limit,
--   the window, the active period and the cooldown (-1 if infinite), and 1 if it is skippable plus 2 if it slides.
-- Answers for each batch whether all that vote fit, the time, and for each member what was stored: `us` and `frac`; or
-- what `report` says, and how much is granted. A batch that fails is answered with the text of its error.

-- The buckets that are loaded, by key, and those that are to be written.
local buckets, changed = {}, {}

-- What is stored is `us`, or `us:frac`, or the text of a bucket with tiers. A missing bucket is a full one.
local function load(key)
  local bucket = buckets[key]
  if bucket then
    return bucket
  end
  bucket = {key = key, us = 0, frac = 0, text = '', ttl = 0, changed = false, fault = false}
  buckets[key] = bucket
  local stored = redis.pcall('GET', key)
  if stored then
    bucket.us = tonumber(stored)
    if not bucket.us then
      bucket.us, bucket.frac, bucket.fault, bucket.text = parse(stored)
    elseif bucket.us < 0 then
      bucket.fault = 'ERR not a bucket'
    end
  end
  return bucket
end

-- Remembers what is to be written at the end: a theoretical arrival time, or a text.
local function change(bucket, us, frac, text, ttl)
  bucket.us, bucket.frac, bucket.text, bucket.ttl = us, frac, text, ttl
  if not bucket.changed then
    bucket.changed = true
    changed[#changed + 1] = bucket
  end
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

-- Keeps a TAT until it is past, counted from the millisecond that has begun. A full bucket needs no key, except under a
-- client's clock, which may yet step back.
local function keep(bucket, us, frac)
  local last, ttl = frac > 0 and us + 1 or us, grace
  if last > now then
    ttl = ttl + math.ceil(last / 1000) - math.floor(now / 1000)
  end
  change(bucket, us, frac, '', ttl)
end

-- Keeps what is granted from tiers until nothing depends on it any more. A large value is written at once, and loaded
-- again when it is needed.
local function keep_tiers(bucket, view)
  local fits, last = settle(view), lapses(view)
  local ttl = last < math.huge and math.ceil(last / 1000) - math.floor(now / 1000) + grace
  if not fits or bucket.changed then
    return change(bucket, 0, 0, write_anew(view), ttl)
  end
  local fault = write_into(bucket.key, view)
  if fault then
    return fault
  elseif ttl then
    redis.call('PEXPIRE', bucket.key, ttl)
  else
    redis.call('PERSIST', bucket.key)
  end
  buckets[bucket.key] = nil
end

-- Asks a bucket with tiers, and says whether that fits and what is granted.
local function ask_tiers(verb, bucket, at, reply)
  local view = read_tiers(bucket.text, at)
  local most, least = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local asks = verb ~= 'look' and verb ~= 'reset'
  local granted = asks and plan(view, most, least) or 0
  reply[#reply + 1], reply[#reply + 2] = report(view, least), granted
  return view, granted, granted > 0 or not asks
end

-- Decides a batch of which the arguments begin at `at` and the keys after `nth`.
local function decide(at, nth)
  if not set_clock(ARGV[at]) then
    return {0, now}
  end
  local reply, members = {1, now}, tonumber(ARGV[at + 1])
  -- What changes if the batch passes, by the member: a TAT, or what is granted from tiers.
  local us, frac, views = {}, {}, {}
  at = at + 4
  for i = 1, members do
    local bucket, verb, fits = load(KEYS[nth + i]), ARGV[at - 1], true
    if bucket.fault then
      return bucket.fault
    elseif ARGV[at] == '0' then
      local view, granted
      view, granted, fits = ask_tiers(verb, bucket, at, reply)
      if verb == 'reset' then
        us[i], frac[i] = 0, 0
      elseif granted > 0 and verb ~= 'vote' then
        views[i] = view
      end
      at = at + 5 + 5 * #view
    else
      local new_us, new_frac = apply(verb, bucket.us, bucket.frac, at)
      fits = new_us ~= nil
      if fits and verb ~= 'vote' and (new_us ~= bucket.us or new_frac ~= bucket.frac or verb == 'reset') then
        us[i], frac[i] = new_us, new_frac
      end
      reply[#reply + 1], reply[#reply + 2] = bucket.us, bucket.frac
      at = at + 6
    end
    if not fits and verb ~= 'offer' then
      reply[1] = 0
    end
  end
  if reply[1] == 0 then
    return reply
  end
  for i, view in pairs(views) do
    local fault = keep_tiers(load(KEYS[nth + i]), view)
    if fault then
      return fault
    end
  end
  for i, new_us in pairs(us) do
    keep(load(KEYS[nth + i]), new_us, frac[i])
  end
  return reply
end

-- Writes what has changed, and says why the server takes no writes if it does not.
local function write()
  local wrote = false
  for _, bucket in ipairs(changed) do
    local value, ttl = bucket.text, bucket.ttl
    if value == '' and bucket.us > 0 and ttl > 0 then
      value = string.format(bucket.frac > 0 and '%.0f:%.0f' or '%.0f', bucket.us, bucket.frac)
    end
    if value ~= '' then
      local set = ttl and redis.pcall('SET', bucket.key, value, 'PX', ttl) or redis.pcall('SET', bucket.key, value)
      if set.err then
        return wrote and error(set.err) or set.err
      end
      wrote = true
    end
  end
  for _, bucket in ipairs(changed) do
    if bucket.text == '' and (bucket.us == 0 or bucket.ttl <= 0) then
      redis.call('DEL', bucket.key)
    end
  end
end

local replies, at, nth = {}, 2, 0
for i = 1, tonumber(ARGV[1]) do
  replies[i] = decide(at, nth)
  at, nth = at + 3 + ARGV[at + 2], nth + ARGV[at + 1]
end
if write() then
  -- Each batch for itself: those that write nothing are none the worse for it.
  at, nth = 2, 0
  for i = 1, #replies do
    buckets, changed = {}, {}
    local reply = decide(at, nth)
    replies[i] = write() or reply
    at, nth = at + 3 + ARGV[at + 2], nth + ARGV[at + 1]
  end
end
return replies
