-- Decides batches, one after the other. Each member of a batch has a verb, which says what to do to the member's
-- bucket. A batch is applied completely or not at all.
--
-- KEYS: the buckets of all members, batch after batch.
-- ARGV: the number of batches, the number of kinds of batches, and the kinds; then for each batch its kind, counted from
-- 0. Zeros at the end are left out. A kind is the time (the client's, or -1 for the server's), the number of members, the
-- number of arguments that follow, and for each member a verb, the letter of its algorithm, and the arguments that
-- `member.lua` of this algorithm describes.
-- The verbs: `spend` charges and votes; `offer` charges without a vote; `vote` votes without charging; `debit` charges
-- even into debt; `refund`; `leave` refunds to a limit with a line; `renew` moves a charge to now; `reset`; `look` only reads.
-- Answers for each batch 1 if all voting members fit or 0 if not, the time, and the two values for each member that its
-- algorithm reports. The answer for a batch that fails is the text of its error.

local KEYS, pcall, find = KEYS, pcall, string.find

-- The algorithms that are in use, by letter.
local in_use = {}

-- Reads the kind whose arguments begin at `at`.
local function read_kind(at)
  local kind, place = {time = ARGV[at], verbs = {}, by = {}, terms = {}}, at + 3
  for i = 1, tonumber(ARGV[at + 1]) do
    local verb, letter = ARGV[place], ARGV[place + 1]
    local by = in_use[letter]
    if not by then
      by = algorithms[letter]()
      in_use[letter] = by
    end
    kind.verbs[i], kind.by[i] = verb, by
    kind.terms[i], place = by.terms(place + 2, verb)
  end
  return kind
end

-- For each member of the current batch: its bucket, the function that makes its change, and two arguments of that
-- function.
local found, changes, first, second = {}, {}, {}, {}
-- The number of the member that is being asked for.
local asked_for = 0

-- Returns the error for a member's bucket. It names the member if only its bucket is broken.
local function fault_of(fault)
  return find(fault, '^BROKEN') and fault .. ' ' .. asked_for or fault
end

-- Empties a bucket, whatever its algorithm is.
local function empty(bucket)
  bucket.us, bucket.frac, bucket.text, bucket.fault, bucket.units = 0, 0, '', nil, nil
end

local function nothing()
  return ''
end

local function remove(bucket)
  empty(bucket)
  change(bucket, nothing, 0)
end

-- Asks for the bucket of a reset, because the reply contains the old state. A reset also removes a value that cannot be
-- read, whose state is empty.
local function ask_reset(by, bucket, terms)
  if not bucket.fault then
    local is_read, seen, number = pcall(by.ask, 'look', bucket, terms)
    if is_read then
      return seen, number, true, remove
    end
  end
  empty(bucket)
  local seen, number = by.ask('look', bucket, terms)
  return seen, number, true, remove
end

-- Loads a bucket. A missing bucket is a full one.
local function load(key, by, verb, terms)
  local bucket, fault = by.load(key, verb, terms)
  if fault then
    bucket.fault = fault
  end
  if not bucket.is_partial then
    buckets[key] = bucket
  end
  return bucket
end

-- Decides a batch whose keys follow `nth`.
local function decide(kind, nth)
  asked_for = 0
  if not set_clock(kind.time) then
    return {0, now}
  end
  -- A table that is created with enough room does not have to grow.
  local reply, passes, has_large, fits = {1, now, 0, 0, 0, 0, 0, 0, 0, 0}, true, false, true
  local verbs, bys, terms = kind.verbs, kind.by, kind.terms
  local members = #verbs
  for i = members + 1, 4 do
    reply[2 * i + 1], reply[2 * i + 2] = nil, nil
  end
  for i = 1, members do
    local key, verb, by, own = KEYS[nth + i], verbs[i], bys[i], terms[i]
    asked_for = i
    local bucket = buckets[key] or load(key, by, verb, own)
    local fault = bucket.fault
    if fault and not (verb == 'reset' and find(fault, '^BROKEN')) then
      return fault_of(fault)
    end
    found[i] = bucket
    local change_bucket = nil
    if verb == 'reset' then
      reply[2 * i + 1], reply[2 * i + 2], fits, change_bucket = ask_reset(by, bucket, own)
    else
      reply[2 * i + 1], reply[2 * i + 2], fits, change_bucket, first[i], second[i] = by.ask(verb, bucket, own)
    end
    changes[i] = change_bucket
    passes = passes and (fits or verb == 'offer')
    has_large = has_large or change_bucket and at_once[change_bucket]
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
    local change_bucket = changes[i]
    if change_bucket and not (has_large and at_once[change_bucket]) then
      change_bucket(found[i], first[i], second[i])
    end
  end
  return reply
end

-- Decides a batch, and turns an error into a reply. Another program may have written the stored values.
local function try(kind, nth)
  -- A broken value must not fail the batches of other clients in the same call.
  local done, reply = pcall(decide, kind, nth)
  if done then
    return reply
  end
  return fault_of(error_of(reply))
end

-- Writes the changed buckets. Returns the error if the server refuses the first write.
local function write()
  local call, wrote, removed, last, text = redis.pcall, false, nil, -1, ''
  for i = 1, writes do
    local bucket = changed[i]
    local lifetime = lifetimes[i]
    local value = values[i](bucket, lifetime)
    if value == '' then
      removed = removed or {}
      removed[#removed + 1] = bucket.key
    else
      -- Redis writes numbers with 17 digits, which takes longer than a command.
      if lifetime and lifetime ~= last then
        last, text = lifetime, format(whole, lifetime)
      end
      local set = lifetime and call('SET', bucket.key, value, 'PX', text) or call('SET', bucket.key, value)
      if set.err then
        return wrote and error(set.err) or set.err
      end
      wrote = true
    end
  end
  for _, key in ipairs(removed or {}) do
    redis.call('DEL', key)
  end
end

local kinds, at = {}, 3
for kind = 1, tonumber(ARGV[2]) do
  kinds[kind] = read_kind(at)
  at = at + 3 + ARGV[at + 2]
end

local replies, nth = {}, 0
local function kind_of(batch)
  return kinds[1 + (ARGV[at + batch - 1] or 0)]
end
for batch = 1, tonumber(ARGV[1]) do
  local kind = kind_of(batch)
  replies[batch] = try(kind, nth)
  nth = nth + #kind.verbs
end
if write() then
  -- The server refuses writes. Decide each batch again, separately: a batch that writes nothing still gets its answer.
  nth = 0
  for batch = 1, #replies do
    local kind = kind_of(batch)
    buckets, writes = {}, 0
    local reply = try(kind, nth)
    replies[batch] = write() or reply
    nth = nth + #kind.verbs
  end
end
return replies
