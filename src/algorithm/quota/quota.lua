-- Quotas. A value is `Q0<last>:<used>`: the last microsecond of the period, and the amount used in it. That of a period from
-- first use is `Q<start>:<used>`, as all values of an earlier version are, which reads both. The state is the end of the period
-- and the amount. It is shown.
-- A term: the quota; the cost; the length of a period from first use, or -1; the start and the end of a calendar's period, and
-- the ends of the next two; and the end of the period of the charge that a refund is about, or -1.
function algorithms.Q()
  local quota = {show = show_state}

  -- Returns the end of the period that contains an instant, or nil if it is outside of the known periods.
  local function period(instant, term)
    for n = 5, term[3] < 0 and 7 or 0 do
      if instant >= term[n - 1] and instant < term[n] then
        return term[n]
      end
    end
    return term[3] >= 0 and instant + term[3] or nil
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

  -- Uses some units, up to a number: of the period that counts, or of a new one if that has ended.
  local function use(ends, used, term, units, most)
    if now >= ends or used == 0 then
      ends, used = period(now, term) or error(CLOCK .. format(whole, now), 0), 0
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
    if now < ends and min(term[2], used) > 0 and (term[8] < 0 or term[8] == ends) then
      return ends, max(used - term[2], 0), min(term[2], used)
    end
  end

  -- The value outlives its period by a minute, so that a clock that steps back gives no second quota.
  function quota.dump(ends, used, term)
    local start = term[3] >= 0 and ends - term[3] or -1
    local head = start >= 0 and format(whole, start) or '0' .. format(whole, ends - 1)
    if used > 0 then
      return 'Q' .. head .. ':' .. format(whole, used), ends + 60000000
    end
  end

  return quota
end
