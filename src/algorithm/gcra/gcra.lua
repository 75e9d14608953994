-- GCRA. A value is `us`, or `us:frac` if there is a remainder, which is in parts of the limit's count.

-- Reads a value, or an answer that is not one. Returns `us`, `frac` and an error.
local function read_tat(stored)
  if not stored then
    return 0, 0
  end
  local us, frac = tonumber(stored), 0
  if us and us >= 1e15 and us < END and #stored == 16 then
    return us, 0
  elseif type(stored) == 'table' then
    return 0, 0, fault_of_answer(stored)
  end
  us, frac = string.match(stored, '^(%d+):(%d+)$')
  us, frac = tonumber(us or string.match(stored, '^%d+$')), tonumber(frac or 0)
  if us and us < END and frac < 4294967296 then
    return us, frac
  end
  return 0, 0, BROKEN_VALUE
end

-- Returns the TAT after a charge, or nil if it would be beyond the horizon. Equality is allowed.
local function charge(us, frac, count, cost, cost_frac, horizon, horizon_frac)
  if us < now then
    -- Idle time does not add up.
    us, frac = now, 0
  elseif frac >= count then
    -- The limit's count was lowered after the fraction was stored.
    frac = count - 1
  end
  -- A double would round the sum of a time and a fraction, so they are added and compared separately.
  us, frac = us + cost, frac + cost_frac
  if frac >= count then
    us, frac = us + 1, frac - count
  end
  if us > horizon or us == horizon and frac > horizon_frac then
    return nil
  end
  return us, frac
end
