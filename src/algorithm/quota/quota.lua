-- Quotas. A value is `Q0<last>:<used>`: the last microsecond of the period, and the amount used in it. An earlier version has
-- written `Q<start>:<used>`, which is read as a period of the limit in force. The state is the end of the period and the amount.
-- It is shown.
-- A question: the quota; the cost; the length of a period from first use, or -1; the start and the ends of three periods of a
-- calendar, and the end of the one after them; and the end of the period of the charge that a refund is about, or -1.
if letter == 'Q' then
  -- Returns the end of the period that contains an instant, and the latest end that a bucket can have then: of the next period, or
  -- of the same one if periods begin with their first use. Returns nil if the instant is outside of the known periods.
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
      error('CLOCK ' .. digits(now), 0)
    end
    return ends, latest
  end

  local function load(value, question)
    local is_last, first, used = string.match(value or 'Q0:0', '^Q(0?)(%d+):(%d+)$')
    first, used = tonumber(first), tonumber(used)
    if not (used and first < 2^53 and used < 2^32) then
      error('BROKEN value', 0)
    end
    -- An unknown period has ended, unless it begins later, by a clock that has stepped back.
    local ends = is_last == '0' and first + 1 or period(first, question) or first
    -- An end beyond the latest one comes from a longer period, which the limit had before. Charges read it as that of the current
    -- one.
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

  -- The value outlives its period by a minute, so that a clock that steps back gives no second quota.
  local function dump(ends, used)
    if used > 0 then
      return 'Q0' .. digits(ends - 1) .. ':' .. used, ends + 60000000
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

  -- Uses some units, up to a number: of the period that counts, or of a new one if that has ended.
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
