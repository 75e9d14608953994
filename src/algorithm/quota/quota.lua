-- Quotas. A value is `Q0<last>:<used>`: the last microsecond of the period, and the amount used in it. An earlier version has
-- written `Q<start>:<used>`, which is read as a period of the limit in force. The state is the end of the period and the amount.
-- It is shown.
-- A term: the quota; the cost; the length of a period from first use, or -1; the start and the ends of three periods of a
-- calendar, and the end of the one after them; and the end of the period of the charge that a refund is about, or -1.
function algorithms.Q()
  local quota = {show = show_state}

  -- Returns the end of the period that contains an instant, and the latest end that a bucket can have then: of the next period, or
  -- of the same one if periods begin with their first use. Returns nil if the instant is outside of the known periods.
  local function period(instant, term)
    if term[3] >= 0 then
      return instant + term[3], instant + term[3]
    end
    for n = 5, 7 do
      if instant >= term[n - 1] and instant < term[n] then
        return term[n], term[n + 1]
      end
    end
  end

  local function current_period(term)
    local ends, latest = period(now, term)
    if not ends then
      error(CLOCK .. format(whole, now), 0)
    end
    return ends, latest
  end

  function quota.load(value, term)
    local is_last, first, used = match(value or 'Q0:0', '^Q(0?)(%d+):(%d+)$')
    first, used = tonumber(first), tonumber(used)
    if not (used and first < END and used < 4294967296) then
      error(BROKEN, 0)
    end
    -- An unknown period has ended, unless it begins later, by a clock that has stepped back.
    return is_last == '0' and first + 1 or period(first, term) or first, used
  end

  -- An end beyond the latest one comes from a longer period, which the limit had before. It is read as that of the current one.
  function quota.adopt(ends, used, term)
    if now < ends and used > 0 then
      local of_current, latest = current_period(term)
      ends = ends > latest and of_current or ends
    end
    return ends, used
  end

  -- Uses some units, up to a number: of the period that counts, or of a new one if that has ended.
  local function use(ends, used, term, units, most)
    if now >= ends or used == 0 then
      ends, used = current_period(term), 0
    end
    units = min(units, most - used)
    return ends, used + units, units
  end

  function quota.spend(ends, used, term)
    local after, all, units = use(ends, used, term, term[2], huge)
    if all <= term[1] then
      return after, all, units
    end
  end

  function quota.debit(ends, used, term)
    return use(ends, used, term, term[2], 4294967295)
  end

  function quota.refund(ends, used, term)
    if now < ends and min(term[2], used) > 0 and (term[9] < 0 or term[9] == ends) then
      return ends, max(used - term[2], 0), min(term[2], used)
    end
  end

  -- The value outlives its period by a minute, so that a clock that steps back gives no second quota.
  function quota.dump(ends, used)
    if used > 0 then
      return 'Q0' .. format(whole, ends - 1) .. ':' .. format(whole, used), ends + 60000000
    end
  end

  return quota
end
