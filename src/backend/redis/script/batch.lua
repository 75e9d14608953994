-- Decides batches one after the other: each does to its buckets what a verb for each says, all or nothing.
--
-- KEYS: the buckets of all members, batch after batch. ARGV: how many batches there are; then for each of them the time
-- (the client's, or -1 for the server's), how many members it has, how many arguments follow, and for each member a verb,
-- and
--   the limit's count, the cost and the tolerance in whole microseconds, and what remains of the cost and of the
--   tolerance, in parts of the count; to the tolerance, the wait in line is added for a charge that may wait; for `leave`
--   also what was stored right after the charge, `us` and `frac`, or -1 and 0 if that is not known;
--   or, if it has tiers, `T`, the most and the least units, how many tiers there are, and for each of them the limit,
--   the window, the active period and the cooldown (-1 if infinite), and 1 if it is skippable plus 2 if it slides;
--   or, if it has a window, `W`, what is done to the units if it passes (`spend`, `debit`, `fill`, which is a debit of no
--   more than there is room for, `earlier`, which is one of units that were taken before now, `refund` or `keep`), the limit,
--   the window, the cost, and the instant of the units that are refunded (-1 for the newest), or how long ago they were taken;
--   or, if it has a quota, `Q`, the quota, the cost, the period as two arguments, and the start of the period in which
--   was charged what is refunded (-1 for any).
-- Answers for each batch whether all that vote fit, the time, and for each member what was stored: `us` and `frac`; or
-- what is reported of its tiers, and how much is granted; or what is reported of its window, and how many units change; or
-- the start of its period, and how much is used. A batch that fails is answered with the text of its error.

-- The buckets that are loaded, by key, and those that are to be written.
-- Nothing is written before all batches are decided: a script that fails half-way is not rolled back by Redis.
local buckets, changed = {}, {}

-- What is stored is `us`, or `us:frac`, or the text of a bucket with another algorithm. A missing bucket is a full one.
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

-- A bucket of which the value stays where it is, if that is a large window. A user who may not read
-- parts of it reads and writes it as a whole.
local function find_large(key)
  local length = not buckets[key] and redis.pcall('STRLEN', key)
  if type(length) ~= 'number' or length <= 1 + 8 * SMALL_WINDOW or length % 8 ~= 1 then
    return nil
  end
  local head = redis.pcall('GETRANGE', key, 0, 8)
  if type(head) ~= 'string' or string.sub(head, 1, 1) ~= 'W' then
    return nil
  end
  local units = units_of(nil, key, (length - 1) / 8)
  units.ends[0] = struct.unpack('<d', head, 2)
  return {key = key, us = 0, frac = 0, text = '', ttl = 0, changed = false, fault = false, units = units}
end

-- Remembers what is to be written at the end: a theoretical arrival time, or a text.
local function change(bucket, us, frac, text, ttl)
  buckets[bucket.key] = bucket
  bucket.us, bucket.frac, bucket.text, bucket.ttl = us, frac, text, ttl
  if not bucket.changed then
    bucket.changed = true
    changed[#changed + 1] = bucket
  end
end

-- Whole microseconds and the fraction are added apart. As one number, a double could not hold both exactly.
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
  elseif verb == 'leave' then
    return leave(us, frac, at)
  end
  if us < now then
    -- A full bucket cannot become fuller, and one in the past counts as full now: idle time does not add up.
    if verb == 'refund' then
      return us, frac
    end
    us, frac = now, 0
  elseif frac >= tonumber(ARGV[at]) then
    -- The limit's count has become smaller since the fraction was stored.
    frac = ARGV[at] - 1
  end
  if verb == 'refund' then
    return refund(us, frac, at)
  end
  local new_us, new_frac = charge(us, frac, at)
  if verb == 'debit' then
    -- 2^51: a deeper debt could leave the range in which doubles are exact.
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

-- Keeps a text until `last`, or nothing if it is empty.
local function keep_text(bucket, text, last)
  change(bucket, 0, 0, text, math.ceil(last / 1000) - math.floor(now / 1000) + grace)
end

-- Appends the units of a large window, and keeps it until the last of them expires.
local function keep_units(bucket, window)
  local added = string.rep(struct.pack('<d', window.at), window.units)
  local length = redis.pcall('SETRANGE', bucket.key, 1 + 8 * bucket.units.all, added)
  if type(length) == 'table' then
    return length.err
  end
  local last = window.at + window.span
  redis.call('PEXPIRE', bucket.key, math.ceil(last / 1000) - math.floor(now / 1000) + grace)
end

-- What writes a large value, at once.
local at_once = {[keep_tiers] = true, [keep_units] = true}

-- The text of a bucket, if it is of this algorithm.
local function text_of(bucket, algorithm)
  return string.sub(bucket.text, 1, 1) == algorithm and bucket.text or ''
end

-- Each of these asks a bucket. Returns what is reported of it, as two values; whether the request fits; how many arguments
-- it has; and what makes the change, if there is one. Its name is its algorithm's.
local ask = {}

function ask.T(verb, bucket, at)
  local view = read_tiers(text_of(bucket, 'T'), at)
  local most, least = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local granted = verb ~= 'look' and plan(view, most, least) or 0
  local takes = granted > 0 and verb ~= 'vote'
  return report(view, least), granted, granted > 0 or verb == 'look', 4 + 5 * #view, takes and keep_tiers, view
end

function ask.W(verb, bucket, at)
  local text = text_of(bucket, 'W')
  local window, fits, seen = ask_window(bucket.units or units_of(text, nil, math.floor(#text / 8)), at + 1)
  local units = math.abs(window.units)
  if verb == 'look' or verb == 'vote' or units == 0 then
    return seen, units, fits or verb == 'look', 6
  elseif can_append(window) then
    return seen, units, fits, 6, keep_units, window
  end
  bucket.units = nil
  return seen, units, fits, 6, keep_text, changed_text(window)
end

function ask.Q(verb, bucket, at)
  local start, used = string.match(bucket.text, '^Q(%d+):(%d+)$')
  start, used = tonumber(start or 0), tonumber(used or 0)
  local fits, new_start, new_used, ends = use(verb, start, used, at + 1)
  if not new_start or verb == 'vote' then
    return start, used, fits, 6
  elseif new_used == 0 then
    return start, used, true, 6, keep_text, '', 0
  end
  return start, used, true, 6, keep_text, string.format('Q%.0f:%.0f', new_start, new_used), ends
end

local function ask_gcra(verb, bucket, at)
  local us, frac = bucket.us, bucket.frac
  local new_us, new_frac = apply(verb, us, frac, at)
  local changes = new_us and verb ~= 'vote' and (new_us ~= us or new_frac ~= frac)
  return us, frac, new_us ~= nil, verb == 'leave' and 7 or 5, changes and keep, new_us, new_frac
end

-- The members of the batch that is decided: the bucket of each, and what makes its change.
local found, changes, first, second = {}, {}, {}, {}

-- Decides a batch of which the arguments begin at `at` and the keys after `nth`.
local function decide(at, nth)
  if not set_clock(ARGV[at]) then
    return {0, now}
  end
  -- Most batches have one member. A table that has its room from the beginning costs least.
  local reply, passes, has_large = {1, now, 0, 0}, true, false
  local members, arguments, fits = tonumber(ARGV[at + 1]), 0, true
  at = at + 4
  for i = 1, members do
    local key, verb = KEYS[nth + i], ARGV[at - 1]
    local is_wide = ARGV[at] == 'W' and tonumber(ARGV[at + 2]) > SMALL_WINDOW
    local bucket = is_wide and find_large(key) or load(key)
    if bucket.fault then
      return bucket.fault
    end
    local asks = ask[ARGV[at]] or ask_gcra
    found[i] = bucket
    -- A reset asks for nothing but what there was.
    local asked = verb == 'reset' and 'look' or verb
    reply[2 * i + 1], reply[2 * i + 2], fits, arguments, changes[i], first[i], second[i] = asks(asked, bucket, at)
    if verb == 'reset' then
      changes[i], first[i], second[i] = keep, 0, 0
    end
    passes = passes and (fits or verb == 'offer')
    has_large = has_large or changes[i] and at_once[changes[i]]
    at = at + 1 + arguments
  end
  if not passes then
    reply[1] = 0
    return reply
  end
  -- Large values are written at once, and tell whether the server takes writes at all.
  for i = 1, has_large and members or 0 do
    local fault = changes[i] and at_once[changes[i]] and changes[i](found[i], first[i])
    if fault then
      return fault
    end
  end
  for i = 1, members do
    if changes[i] and not at_once[changes[i]] then
      changes[i](found[i], first[i], second[i])
    end
  end
  return reply
end

-- Decides a batch as far as that is possible. What is stored may have been written by somebody else.
local function try(at, nth)
  -- One broken value must not fail the batches of other clients in the same call.
  local done, reply = pcall(decide, at, nth)
  if done then
    return reply
  end
  return type(reply) == 'table' and reply.err or 'ERR ' .. reply
end

-- Writes what has changed, and says why the server takes no writes if it does not.
local function write()
  local wrote = false
  for _, bucket in ipairs(changed) do
    local value, ttl = bucket.text, bucket.ttl
    -- `%.0f` and never `tostring`, which writes large numbers with an exponent.
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
  replies[i] = try(at, nth)
  at, nth = at + 3 + ARGV[at + 2], nth + ARGV[at + 1]
end
if write() then
  -- Each batch for itself: those that write nothing are none the worse for it.
  at, nth = 2, 0
  for i = 1, #replies do
    buckets, changed = {}, {}
    local reply = try(at, nth)
    replies[i] = write() or reply
    at, nth = at + 3 + ARGV[at + 2], nth + ARGV[at + 1]
  end
end
return replies
