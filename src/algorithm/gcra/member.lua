-- Members of batches by GCRA. Their arguments: the limit's count; the cost and the tolerance in whole microseconds; the
-- remainders of both, in parts of the count. For a charge that may wait, the tolerance includes the wait in line. For
-- `leave`, also `us` and `frac` as stored right after the charge, or -1 and 0 if they are unknown.
-- The two reported values are `us` and `frac`, as stored before.

local by, huge, call = {}, math.huge, redis.pcall

function by.terms(at, verb)
  local terms = {
    count = tonumber(ARGV[at]), cost = tonumber(ARGV[at + 1]), tolerance = tonumber(ARGV[at + 2]),
    cost_frac = tonumber(ARGV[at + 3]), tolerance_frac = tonumber(ARGV[at + 4]), own_us = -1, own_frac = 0,
  }
  if verb ~= 'leave' then
    return terms, at + 5
  end
  terms.own_us, terms.own_frac = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  return terms, at + 7
end

function by.load(key)
  local us, frac, fault = read_tat(call('GET', key))
  return {key = key, place = 0, us = us, frac = frac}, fault
end

-- The last value that was written. Buckets that were full get the same value from equal charges.
local written_us, written_frac, value = -1, 0, ''

-- Returns the value to store, which is empty if the bucket is full.
local function value_of(bucket, lifetime)
  local us, frac = bucket.us, bucket.frac
  if us == 0 or lifetime <= 0 then
    return ''
  elseif us ~= written_us or frac ~= written_frac then
    written_us, written_frac, value = us, frac, format(whole, us)
    if frac > 0 then
      value = value .. format(':%.0f', frac)
    end
  end
  return value
end

-- Keeps a TAT until it has passed, counted from the start of the current millisecond. A full bucket needs no key,
-- except under a client's clock, which may still step back.
local function keep(bucket, us, frac)
  local last, ttl = frac > 0 and us + 1 or us, grace
  if last > now then
    ttl = ttl + ceil(last / 1000) - floor(now / 1000)
  end
  bucket.us, bucket.frac = us, frac
  change(bucket, value_of, ttl)
end

local function refund(us, frac, terms)
  us, frac = us - terms.cost, frac - terms.cost_frac
  if frac < 0 then
    us, frac = us - 1, frac + terms.count
  end
  if us < now then
    return now, 0
  end
  return us, frac
end

-- Refunds a charge on a limit with a line. While somebody waits in line, only the last slot can be given back: the
-- callers behind any other slot keep their instants. If nobody waits, a refund works as usual.
local function is_kept(us, frac, own_frac, terms)
  local horizon = now + terms.tolerance
  local is_waited_for = us > horizon or us == horizon and frac > terms.tolerance_frac
  return is_waited_for and not (us == terms.own_us and own_frac == terms.own_frac)
end

-- Returns the TAT after a verb, or nil if the cost does not fit.
local function tat_after(verb, us, frac, terms)
  local count = terms.count
  if verb == 'refund' or verb == 'leave' then
    local normal = frac >= count and count - 1 or frac
    -- A TAT in the past means a full bucket. A refund cannot make it fuller.
    if us < now or verb == 'leave' and is_kept(us, normal, frac, terms) then
      return us, frac
    end
    return refund(us, normal, terms)
  elseif verb ~= 'debit' then
    return charge(us, frac, count, terms.cost, terms.cost_frac, now + terms.tolerance, terms.tolerance_frac)
  end
  -- 2^51: a deeper debt could leave the range in which doubles are exact.
  local deepest = now + 2251799813685248
  local new_us, new_frac = charge(us, frac, count, terms.cost, terms.cost_frac, huge, 0)
  if new_us < deepest then
    return new_us, new_frac
  elseif us < deepest then
    return deepest, 0
  end
  return us, frac >= count and count - 1 or frac
end

function by.ask(verb, bucket, terms)
  local us, frac = bucket.us, bucket.frac
  local new_us, new_frac = nil, nil
  if verb == 'spend' then
    new_us, new_frac = charge(
      us, frac, terms.count, terms.cost, terms.cost_frac, now + terms.tolerance, terms.tolerance_frac
    )
  elseif verb == 'look' then
    return us, frac, true
  else
    new_us, new_frac = tat_after(verb, us, frac, terms)
  end
  local changes = new_us and verb ~= 'vote' and (new_us ~= us or new_frac ~= frac)
  return us, frac, new_us ~= nil, changes and keep, new_us, new_frac
end

return by
