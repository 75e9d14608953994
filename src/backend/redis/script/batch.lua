-- Decides batches, one after the other. Each member of a batch has a verb, which says what to do to the member's
-- bucket. A batch is applied completely or not at all.
--
-- KEYS: the buckets of all members, batch after batch.
-- ARGV: the number of batches. Then for each batch: the time (the client's, or -1 for the server's), the number of
-- members, the number of arguments that follow, and for each member a verb and the arguments of its algorithm:
--   GCRA: the limit's count; the cost and the tolerance in whole microseconds; the remainders of both, in parts of the
--     count. For a charge that may wait, the tolerance includes the wait in line. For `leave`, also `us` and `frac` as
--     stored right after the charge, or -1 and 0 if they are unknown.
--   Tiers: `T`; the most and the fewest units to grant; the number of tiers; for each tier the limit, the window, the
--     active period and the cooldown (-1 if infinite), and a sum of 1 if the tier is skippable and 2 if its window
--     slides.
--   Window: `W`; the change to make if the batch passes; the limit, the window, the cost; the instant of the units to
--     refund (-1 for the newest units) or, for `earlier`, how long ago the units were taken. The changes are `spend`,
--     `debit`, `fill` (a debit of at most as many units as there is room for), `earlier` (a debit of units that were
--     taken before now), `refund` and `keep` (no change).
--   Quota: `Q`; the quota, the cost, the period as two arguments; the start of the period that a refund gives back to
--     (-1 for any period).
-- The verbs: `spend` charges and votes; `offer` charges without a vote; `vote` votes without charging; `debit` charges
-- even into debt; `refund`; `leave` refunds to a limit with a line; `reset`; `look` only reads.
-- Answers for each batch 1 if all voting members fit or 0 if not, the time, and two values for each member:
--   GCRA: `us` and `frac`, as stored before.
--   Tiers: the report by `tiers.lua`, and the number of granted units.
--   Window: the report by `windows.lua`, and the number of changed units.
--   Quota: the start of the period and the used amount, as stored before.
-- The answer for a batch that fails is the text of its error.

-- The loaded buckets by key, and the list of buckets to write.
-- Nothing is written before all batches are decided, because Redis does not roll back a script that fails half-way.
-- Large values are the exception: see `at_once`.
local buckets, changed = {}, {}

-- The algorithms whose values begin with their letter. The value of a GCRA bucket is `us` or `us:frac`.
local has_text = {T = true, W = true, Q = true}

-- Loads a bucket. A missing bucket is a full one. The algorithm is a letter, or the count of a limit by GCRA.
local function load(key, algorithm)
  local bucket = buckets[key]
  if bucket then
    return bucket
  end
  bucket = {key = key, us = 0, frac = 0, text = '', ttl = 0, changed = false, fault = false}
  buckets[key] = bucket
  local stored = redis.pcall('GET', key)
  if has_text[algorithm] then
    bucket.text, bucket.fault = read_text(stored, algorithm)
  elseif stored then
    local us = tonumber(stored)
    if us and us >= 1e15 and us < END and #stored == 16 then
      bucket.us = us
    else
      bucket.us, bucket.frac, bucket.fault = parse(stored)
    end
  end
  return bucket
end

-- Returns the bucket if its value is a large window. Such a value stays on the server: the script reads only the parts
-- that it needs. If the Redis user lacks the permission to read parts, this returns nil, and the whole value is loaded.
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
  units.ends[0] = checked(struct.unpack('<d', head, 2))
  return {key = key, us = 0, frac = 0, text = '', ttl = 0, changed = false, fault = false, units = units}
end

-- Changes a bucket to a theoretical arrival time or a text, which `write` stores at the end.
local function change(bucket, us, frac, text, ttl)
  buckets[bucket.key] = bucket
  bucket.us, bucket.frac, bucket.text, bucket.ttl = us, frac, text, ttl
  if not bucket.changed then
    bucket.changed = true
    changed[#changed + 1] = bucket
  end
end

-- Adds whole microseconds and the fraction separately. A double could not hold their sum exactly.
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

-- Refunds a charge on a limit with a line. While somebody waits in line, only the last slot can be given back: the
-- callers behind any other slot keep their instants. If nobody waits, a refund works as usual.
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

-- Returns the TAT after a verb, or nil if the cost does not fit.
local function apply(verb, us, frac, at)
  if verb == 'look' then
    return us, frac
  elseif verb == 'leave' then
    return leave(us, frac, at)
  end
  if us < now then
    -- A TAT in the past means a full bucket. A refund cannot make it fuller. A charge starts from now, because idle
    -- time does not add up.
    if verb == 'refund' then
      return us, frac
    end
    us, frac = now, 0
  elseif frac >= tonumber(ARGV[at]) then
    -- The limit's count was lowered after the fraction was stored.
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

-- Keeps a TAT until it has passed, counted from the start of the current millisecond. A full bucket needs no key,
-- except under a client's clock, which may still step back.
local function keep(bucket, us, frac)
  local last, ttl = frac > 0 and us + 1 or us, grace
  if last > now then
    ttl = ttl + math.ceil(last / 1000) - math.floor(now / 1000)
  end
  change(bucket, us, frac, '', ttl)
end

-- Keeps the grants of tiers until no decision depends on them. A large value is written immediately, and loaded again
-- if a later batch needs it.
local function keep_tiers(bucket, tiers, state)
  local last = lapses(tiers, state)
  local ttl = last < math.huge and math.ceil(last / 1000) - math.floor(now / 1000) + grace
  if bucket.changed or not fits(tiers, state, bucket.text) then
    return change(bucket, 0, 0, write_tiers(tiers, take(tiers, state, {})), ttl)
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

-- Keeps a text until `last`. An empty text removes the bucket.
local function keep_text(bucket, text, last)
  change(bucket, 0, 0, text, math.ceil(last / 1000) - math.floor(now / 1000) + grace)
end

-- Appends units to a large window, and keeps the value until the last unit expires.
local function keep_units(bucket, window)
  local added = string.rep(struct.pack('<d', window.at), window.units)
  local length = redis.pcall('SETRANGE', bucket.key, 1 + 8 * bucket.units.all, added)
  if type(length) == 'table' then
    return length.err
  end
  local last = window.at + window.span
  redis.call('PEXPIRE', bucket.key, math.ceil(last / 1000) - math.floor(now / 1000) + grace)
end

-- The functions that write a large value immediately, in place. All other changes wait for `write`.
local at_once = {[keep_tiers] = true, [keep_units] = true}

-- One function for each algorithm, named by its letter. Each returns the two reported values, whether the request fits,
-- the number of the member's arguments and, if the bucket changes, a function that makes the change and its arguments.
local ask = {}

function ask.T(verb, bucket, at)
  local tiers, most, least = new_tiers(at + 3), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local state = read_tiers(tiers, bucket.text)
  local granted = plan(tiers, state, most, least)
  granted = verb == 'look' and 0 or granted
  local seen, passes = report(tiers, state, least, {tiers.at}, 1), granted > 0 or verb == 'look'
  local takes = granted > 0 and verb ~= 'vote'
  return seen, granted, passes, 4 + 5 * #tiers, takes and keep_tiers, tiers, state
end

function ask.W(verb, bucket, at)
  local text = bucket.text
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
  local start, used, fault = read_quota(bucket.text)
  if fault then
    error(fault, 0)
  end
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

-- For each member of the current batch: its bucket, the function that makes its change, and two arguments of that
-- function.
local found, changes, first, second = {}, {}, {}, {}
-- The number of the member that is being asked for.
local asked_for = 0

-- Returns the error for a member's bucket. It names the member if only its bucket is broken.
local function fault_of(fault)
  return string.find(fault, '^BROKEN') and fault .. ' ' .. asked_for or fault
end

-- Asks for the bucket of a reset, because the reply contains the old state. A reset also removes a value that cannot be
-- read, whose state is empty.
local function ask_reset(asks, bucket, at)
  if not bucket.fault then
    local is_read, seen, number, passes, arguments = pcall(asks, 'look', bucket, at)
    if is_read then
      return seen, number, passes, arguments
    end
  end
  bucket.us, bucket.frac, bucket.text, bucket.fault, bucket.units = 0, 0, '', false, nil
  return asks('look', bucket, at)
end

-- Decides a batch whose arguments begin at `at` and whose keys follow `nth`.
local function decide(at, nth)
  if not set_clock(ARGV[at]) then
    return {0, now}
  end
  -- Most batches have one member. A table that is created with enough room does not have to grow.
  local reply, passes, has_large = {1, now, 0, 0}, true, false
  local members, arguments, fits = tonumber(ARGV[at + 1]), 0, true
  at = at + 4
  for i = 1, members do
    local key, verb = KEYS[nth + i], ARGV[at - 1]
    local is_wide = ARGV[at] == 'W' and tonumber(ARGV[at + 2]) > SMALL_WINDOW
    asked_for = i
    -- The whole value of a bucket that is reset is read, so that a broken one can be removed.
    local bucket = is_wide and verb ~= 'reset' and find_large(key) or load(key, ARGV[at])
    local is_broken = bucket.fault and string.find(bucket.fault, '^BROKEN')
    if bucket.fault and not (is_broken and verb == 'reset') then
      return fault_of(bucket.fault)
    end
    local asks = ask[ARGV[at]] or ask_gcra
    found[i] = bucket
    if verb == 'reset' then
      reply[2 * i + 1], reply[2 * i + 2], fits, arguments = ask_reset(asks, bucket, at)
      changes[i], first[i], second[i] = keep, 0, 0
    else
      reply[2 * i + 1], reply[2 * i + 2], fits, arguments, changes[i], first[i], second[i] = asks(verb, bucket, at)
    end
    passes = passes and (fits or verb == 'offer')
    has_large = has_large or changes[i] and at_once[changes[i]]
    at = at + 1 + arguments
  end
  if not passes then
    reply[1] = 0
    return reply
  end
  -- Large values come first: if the server refuses writes, the first large write fails before anything has changed.
  for i = 1, has_large and members or 0 do
    local fault = changes[i] and at_once[changes[i]] and changes[i](found[i], first[i], second[i])
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

-- Decides a batch, and turns an error into a reply. Another program may have written the stored values.
local function try(at, nth)
  -- A broken value must not fail the batches of other clients in the same call.
  local done, reply = pcall(decide, at, nth)
  if done then
    return reply
  end
  return fault_of(error_of(reply))
end

-- Writes the changed buckets. Returns the error if the server refuses the first write.
local function write()
  local wrote = false
  for _, bucket in ipairs(changed) do
    local value, ttl = bucket.text, bucket.ttl
    -- `%.0f` and not `tostring`, which writes large numbers with an exponent.
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
  -- The server refuses writes. Decide each batch again, separately: a batch that writes nothing still gets its answer.
  at, nth = 2, 0
  for i = 1, #replies do
    buckets, changed = {}, {}
    local reply = try(at, nth)
    replies[i] = write() or reply
    at, nth = at + 3 + ARGV[at + 2], nth + ARGV[at + 1]
  end
end
return replies
