-- Quotas. A value is `Q0<last>:<used>`: the last microsecond of the period, and the amount used in it. That of a period from
-- first use is `Q<start>:<used>`, as all values of an earlier version are, which reads both. The state is the end of the period,
-- or -1 - start, and the amount.
-- A term: the quota; the cost; the length of a period from first use, or -1; and the start and the end of a calendar's period,
-- and the ends of the next two. The mark of a refund is the end of the period that was charged. Shows the end and the amount.
function algorithms.Q()
  local quota = {}

  function quota.load(value)
    local explicit, first, used = match(value or 'Q0:0', '^Q(0?)(%d+):(%d+)$')
    first, used = tonumber(first), tonumber(used)
    if not (used and first < END and used < 4294967296) then
      error(BROKEN, 0)
    end
    return explicit == '0' and first + 1 or -1 - first, used
  end

  -- Returns the end of the period that contains an instant, or nil if it is outside of the known periods.
  local function period(instant, term)
    for n = 5, term[3] < 0 and 7 or 0 do
      if instant >= term[n - 1] and instant < term[n] then
        return term[n]
      end
    end
    return term[3] >= 0 and instant + term[3] or nil
  end

  -- Returns the end of a stored period. An unknown one has ended, unless it begins later, by a clock that has stepped back.
  local function end_of(ends, term)
    return ends >= 0 and ends or period(-1 - ends, term) or -1 - ends
  end

  -- Returns the period that counts, and the amount: a new one if the stored one has ended.
  local function counting(ends, used, term)
    ends = end_of(ends, term)
    if now < ends and used > 0 then
      return ends, used
    end
    return period(now, term) or error(CLOCK, 0), 0
  end

  function quota.spend(ends, used, term)
    ends, used = counting(ends, used, term)
    if used + term[2] <= term[1] then
      return ends, used + term[2], term[2]
    end
  end

  function quota.debit(ends, used, term)
    ends, used = counting(ends, used, term)
    local units = min(term[2], 4294967295 - used)
    return ends, used + units, units
  end

  function quota.refund(ends, used, term, mark)
    ends = end_of(ends, term)
    local units = now < ends and min(term[2], used) or 0
    if units > 0 and (mark == '' or tonumber(mark) == ends) then
      return ends, used - units, units
    end
  end

  function quota.show(ends, used, term, reply, at)
    reply[at + 1], reply[at + 2] = end_of(ends, term), used
    return at + 2
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
