-- GCRA. A value is the TAT: `us`, or `us:frac` with a remainder in parts of the limit's count. The state is both, and is shown.
-- A term: the count; the cost and its remainder; the latest TAT that passes, from now on, and its remainder; and the TAT after the
-- charge that a refund is about, or -1, and its remainder. For a refund, it is the largest with nobody in line.
function algorithms.G()
  local gcra, deepest = {show = show_state}, now + 2251799813685248

  function gcra.load(value)
    local us, frac = tonumber(value or 0), 0
    if value and not (us and us >= 1e15 and us < END and #value == 16) then
      us, frac = match(value, '^(%d+):(%d+)$')
      us, frac = tonumber(us or match(value, '^%d+$')), tonumber(frac or 0)
      if not (us and us < END and frac < 4294967296) then
        error(BROKEN, 0)
      end
    end
    return us, frac
  end

  function gcra.spend(us, frac, term)
    local count, latest = term[1], now + term[4]
    if us < now then
      -- Idle time does not add up.
      us, frac = now, 0
    end
    -- The fraction can come from a limit with another count.
    us, frac = us + term[2], (frac < count and frac or count - 1) + term[3]
    if frac >= count then
      us, frac = us + 1, frac - count
    end
    if us < latest or us == latest and frac <= term[5] then
      return us, frac, 1
    end
  end

  -- A debt that has stopped growing cannot be given back.
  function gcra.debit(us, frac, term)
    local after, after_frac = gcra.spend(us, frac, term)
    if after and (after < deepest or after == deepest and after_frac == 0) then
      return after, after_frac, 1
    end
    return max(us, deepest), us < deepest and 0 or min(frac, term[1] - 1), 0
  end

  -- While somebody waits in line, only the last place can be given back.
  function gcra.refund(us, frac, term)
    frac = min(frac, term[1] - 1)
    local latest, is_last = now + term[4], us == term[6] and frac == term[7]
    local is_full, is_late = us < now or us == now and frac == 0, us > latest or us == latest and frac > term[5]
    if not is_full and (is_last or not is_late) then
      us, frac = us - term[2], frac - term[3]
      if frac < 0 then
        us, frac = us - 1, frac + term[1]
      end
      return max(us, now), us < now and 0 or frac, 1
    end
  end

  function gcra.dump(us, frac)
    if us > now or us == now and frac > 0 then
      return format(whole, us) .. (frac > 0 and format(':%.0f', frac) or ''), frac > 0 and us + 1 or us
    end
  end

  return gcra
end
