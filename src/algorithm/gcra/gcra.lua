-- GCRA. A value is the TAT: `us`, or `us:frac` with a remainder in parts of the limit's count. The state is both.
-- A term: the count; the cost and its remainder; the latest TAT that passes, from now on, and its remainder. For a refund, that
-- is the latest TAT for which nobody waits in line, and the mark is the TAT after the charge. Shows the TAT.
function algorithms.G()
  local deepest = now + 2251799813685248

  local function load(value)
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

  -- Buckets that were full get the same value from equal charges.
  local written, written_frac, text = -1, 0, ''
  local function text_of(us, frac)
    if us ~= written or frac ~= written_frac then
      written, written_frac, text = us, frac, format(whole, us) .. (frac > 0 and format(':%.0f', frac) or '')
    end
    return text
  end

  local function spend(us, frac, term)
    local count, latest = term[1], now + term[4]
    if us < now then
      -- Idle time does not add up.
      us, frac = now, 0
    elseif frac >= count then
      -- The fraction comes from a limit with another count.
      frac = count - 1
    end
    us, frac = us + term[2], frac + term[3]
    if frac >= count then
      us, frac = us + 1, frac - count
    end
    if us < latest or us == latest and frac <= term[5] then
      return us, frac, 1
    end
  end

  -- A debt that has stopped growing cannot be given back.
  local function debit(us, frac, term)
    local after, after_frac = spend(us, frac, term)
    if after < deepest or after == deepest and after_frac == 0 then
      return after, after_frac, 1
    end
    return max(us, deepest), us < deepest and 0 or min(frac, term[1] - 1), 0
  end

  -- While somebody waits in line, only the last place can be given back.
  local function refund(us, frac, term, mark)
    local latest = now + term[4]
    frac = min(frac, term[1] - 1)
    local is_full, is_late = us < now or us == now and frac == 0, us > latest or us == latest and frac > term[5]
    if is_full or is_late and mark ~= text_of(us, frac) then
      return nil
    end
    us, frac = us - term[2], frac - term[3]
    if frac < 0 then
      us, frac = us - 1, frac + term[1]
    end
    return max(us, now), us < now and 0 or frac, 1
  end

  local function dump(us, frac)
    local last = frac > 0 and us + 1 or us
    if last > now then
      return text_of(us, frac), last
    end
  end

  return {load = load, spend = spend, debit = debit, refund = refund, show = show_state, dump = dump}
end
