-- Members of batches by GCRA. Their arguments: the limit's count; the cost and the tolerance in whole microseconds; the
-- remainders of both, in parts of the count. For a charge that may wait, the tolerance includes the wait in line. For
-- `leave`, also `us` and `frac` as stored right after the charge, or -1 and 0 if they are unknown.
-- The state is `us` and `frac`.

local function load(key)
  local stored = call('GET', key)
  local us, frac, fault = read_tat(stored)
  if fault then
    error(fault, 0)
  end
  return stored, us, frac
end

-- The last value that was written. Buckets that were full get the same value from equal charges.
local written_us, written_frac, value = -1, 0, ''

-- Keeps a TAT until it has passed. A full bucket needs no key, except under a client's clock, which may still step back.
local function keep(key, us, frac)
  local last = frac > 0 and us + 1 or us
  if last <= now and grace == 0 then
    call('DEL', key)
    return
  elseif us ~= written_us or frac ~= written_frac then
    written_us, written_frac, value = us, frac, format(whole, us)
    if frac > 0 then
      value = value .. format(':%.0f', frac)
    end
  end
  call('SET', key, value, 'PX', ttl(last))
end

local function spend(us, frac, member)
  return charge(
    us, frac, member.count, member.cost, member.cost_frac, now + member.tolerance, member.tolerance_frac
  )
end

-- Charges the cost, even into debt.
local function debit(us, frac, member)
  -- 2^51: a deeper debt could leave the range in which doubles are exact.
  local deepest = now + 2251799813685248
  local new_us, new_frac = charge(us, frac, member.count, member.cost, member.cost_frac, math.huge, 0)
  if new_us < deepest then
    return new_us, new_frac
  elseif us < deepest then
    return deepest, 0
  end
  return us, math.min(frac, member.count - 1)
end

local function refund(us, frac, member)
  -- A TAT in the past means a full bucket. A refund cannot make it fuller.
  if us < now then
    return us, frac
  end
  us, frac = us - member.cost, math.min(frac, member.count - 1) - member.cost_frac
  if frac < 0 then
    us, frac = us - 1, frac + member.count
  end
  if us < now then
    return now, 0
  end
  return us, frac
end

-- Refunds a charge on a limit with a line. While somebody waits in line, only the last slot can be given back: the
-- callers behind any other slot keep their instants. If nobody waits, a refund works as usual.
local function leave(us, frac, member)
  local horizon, normal = now + member.tolerance, math.min(frac, member.count - 1)
  local is_waited_for = us > horizon or us == horizon and normal > member.tolerance_frac
  if is_waited_for and not (us == member.own_us and frac == member.own_frac) then
    return us, frac
  end
  return refund(us, frac, member)
end

return function(at, verb)
  local member = {
    load = load, ask = spend, keep = keep, votes = true, is_marked = false, seen = false, state = 0, other = 0,
    changes = false, taken = nil, count = tonumber(ARGV[at]), cost = tonumber(ARGV[at + 1]),
    tolerance = tonumber(ARGV[at + 2]), cost_frac = tonumber(ARGV[at + 3]), tolerance_frac = tonumber(ARGV[at + 4]),
  }
  if verb == 'refund' then
    member.ask = refund
  elseif verb == 'debit' then
    member.ask = debit
  elseif verb == 'leave' then
    member.ask, member.own_us, member.own_frac = leave, tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
    return member, at + 7
  end
  return member, at + 5
end
