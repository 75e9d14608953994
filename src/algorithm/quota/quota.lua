-- Quotas.
-- Value: `Q0<last>:<used>`, the last microsecond of the period, and the amount used in it. An earlier version has written
-- `Q<start>:<used>`, which is read as a period of the limit in force.
-- State: the end of the period and the amount, which are also shown.
-- Question: the quota; the cost; the length of a period from first use, or -1; the start and the ends of three periods of a
-- calendar, and the end of the period after them; and, for a refund, the end of the period of the refunded charge, or -1.
if letter == 'Q' then
  -- Returns the end of the period that contains an instant, and the latest end that a bucket can have at that instant: the end of
  -- the next period or, if periods begin with their first use, of the same one. Returns nil outside of the known periods.
  local function period(instant, question)
    if question[3] >= 0 then
      return instant + question[3], instant + question[3]
    end
    for n = 5, 7 do
      if instant >= question[n - 1] and instant < question[n] then
        return question[n], question[n + 1]
      end
    end
  end

  local function current_period(question)
    local ends, latest = period(now, question)
    if not ends then
      error('CLOCK ' .. string.format(whole, now), 0)
    end
    return ends, latest
  end

  local function load(value, question)
    local is_last, first, used = string.match(value or 'Q0:0', '^Q(0?)(%d+):(%d+)$')
    first, used = tonumber(first), tonumber(used)
    if not (used and first < 2^53 and used < 2^32) then
      error('BROKEN value', 0)
    end
    -- A period that is not known is over, unless it begins later because the clock has stepped back.
    local ends = is_last == '0' and first + 1 or period(first, question) or first
    -- An end beyond the latest one was written by a limit with a longer period. Charges read it as the end of the current period.
    if (verb == 'spend' or verb == 'debit') and now < ends and used > 0 then
      local of_current, latest = current_period(question)
      if ends > latest then
        return of_current, used, true
      end
    end
    return ends, used
  end

  local function show(ends, used, _, reply, index)
    reply[index + 1], reply[index + 2] = ends, used
    return index + 2
  end

  -- The value is kept for a minute after its period. Otherwise, a clock that steps back would give a second quota.
  local function dump(ends, used)
    if used > 0 then
      return 'Q0' .. string.format(whole, ends - 1) .. ':' .. used, ends + 60000000
    end
  end

  if verb == 'refund' then
    return load, function(ends, used, question)
      local units = math.min(question[2], used)
      if now < ends and units > 0 and (question[9] < 0 or question[9] == ends) then
        return ends, used - units, units
      end
    end, show, dump
  end

  -- Uses units of the bucket's period, or of a new period if that one has ended, so that at most `most` units are used in it.
  local function use(ends, used, question, most)
    if now >= ends or used == 0 then
      ends, used = current_period(question), 0
    end
    local units = math.min(question[2], most - used)
    return ends, used + units, units
  end

  if verb == 'debit' then
    return load, function(ends, used, question)
      return use(ends, used, question, 2^32 - 1)
    end, show, dump
  end
  return load, verb == 'spend' and function(ends, used, question)
    local after, all, units = use(ends, used, question, math.huge)
    if all <= question[1] then
      return after, all, units
    end
  end, show, dump
end
