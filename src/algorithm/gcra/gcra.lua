-- GCRA.
-- Value: the TAT, as `us`, or as `us:frac` with a remainder in parts of the limit's count.
-- State: both numbers, which are also shown.
-- Question: the count; the cost and its remainder; the latest TAT that passes, counted from now, and its remainder; and, for a
-- refund, the TAT after the refunded charge, or -1, and its remainder. For a refund, the latest TAT is the largest at which no
-- request waits in line.
if letter == 'G' then
  local function load(value)
    local us, frac = tonumber(value or 0), 0
    if value and not (us and us >= 1e15 and us < 2^53 and #value == 16) then
      us, frac = string.match(value, '^(%d+):(%d+)$')
      us, frac = tonumber(us or string.match(value, '^%d+$')), tonumber(frac or 0)
      if not (us and us < 2^53 and frac < 2^32) then
        error('BROKEN value', 0)
      end
    end
    return us, frac
  end

  local function show(us, frac, _, reply, index)
    reply[index + 1], reply[index + 2] = us, frac
    return index + 2
  end

  local function dump(us, frac)
    if us > now and frac == 0 then
      return string.format(whole, us), us
    elseif us >= now and frac > 0 then
      return string.format(whole, us) .. ':' .. frac, us + 1
    end
  end

  -- While requests wait in line, only the last charge can be refunded.
  if verb == 'refund' then
    return load, function(us, frac, question)
      frac = math.min(frac, question[1] - 1)
      local latest, is_last = now + question[4], us == question[6] and frac == question[7]
      local is_full, is_late = us < now or us == now and frac == 0, us > latest or us == latest and frac > question[5]
      if not is_full and (is_last or not is_late) then
        us, frac = us - question[2], frac - question[3]
        if frac < 0 then
          us, frac = us - 1, frac + question[1]
        end
        return math.max(us, now), us < now and 0 or frac, 1
      end
    end, show, dump
  end

  local function spend(us, frac, question)
    local count, latest = question[1], now + question[4]
    if us < now then
      -- The bucket is full. Idle time does not add up.
      us, frac = now, 0
    end
    -- The remainder may have been written by a limit with another count.
    us, frac = us + question[2], (frac < count and frac or count - 1) + question[3]
    if frac >= count then
      us, frac = us + 1, frac - count
    end
    if us < latest or us == latest and frac <= question[5] then
      return us, frac, 1
    end
  end

  -- Debt ends at the deepest TAT. A debit that reaches it cannot be refunded, so it has no units.
  if verb == 'debit' then
    return load, function(us, frac, question)
      local deepest = now + 2^51
      local after, after_frac = spend(us, frac, question)
      if after and (after < deepest or after == deepest and after_frac == 0) then
        return after, after_frac, 1
      end
      return math.max(us, deepest), us < deepest and 0 or math.min(frac, question[1] - 1), 0
    end, show, dump
  end
  return load, verb == 'spend' and spend, show, dump
end
