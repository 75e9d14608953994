-- Windows.
-- Value: `W`, and as a double the instant of each unit, in ascending order. A large value can grow at its end. It begins with `L`
-- and two more doubles: the length of the window by which it was written, and the number of its units at that time. If it has grown
-- since, the units that had expired at the instant of its newest one do not count.
-- State: the value, and the number of its first bytes that are stored. The value begins with `W` if it has to be written anew.
-- Question: the limit; the cost; how long a unit counts; 1 if a debit takes what fits; and, for a refund, the instant of the
-- refunded units, or -1.
-- Shows the number of units that count; and the instants of the last unit that has to expire before the cost fits, of the unit
-- whose end makes more room, and of the newest unit.

-- Functions for values that list units, which windows and tiers use.
if letter == 'units' then
  local units, sub = {}, string.sub

  function units.count(value)
    return (#value - 1) / 8
  end

  -- Returns the instant of a unit. The oldest one has the index 0.
  function units.at(value, index)
    local at = struct.unpack('<d', value, 2 + 8 * index)
    if not (at >= 0 and at < 2^53 and at % 1 == 0) then
      error('BROKEN value', 0)
    end
    return at
  end

  -- Returns the index of the first unit from `low` on that was taken after an instant.
  function units.after(value, low, instant)
    local high = units.count(value)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if units.at(value, middle) <= instant then
        low = middle + 1
      else
        high = middle
      end
    end
    return low
  end

  -- Returns the index of the first unit, of those from `low` or 0 on, that has not expired at an instant.
  function units.first(value, span, at, low)
    low = low or 0
    return low < units.count(value) and units.at(value, low) + span <= at and units.after(value, low, at - span) or low
  end

  function units.new(count, at)
    return string.rep(struct.pack('<d', at), count)
  end

  -- Returns a value from unit `first` on, with bytes in place of the units from `from` to `to`.
  function units.splice(value, first, from, to, bytes)
    return 'W' .. sub(value, 2 + 8 * first, 1 + 8 * from) .. bytes .. sub(value, 2 + 8 * to)
  end

  -- Returns whether the first two numbers of a value are those of a large one, and not units.
  function units.are_large(value)
    return sub(value, 1, 1) == 'L'
  end

  function units.checked(value)
    local count, low = units.count(value), units.are_large(value) and 2 or 0
    if low == 0 and sub(value, 1, 1) ~= 'W' or count % 1 > 0 or count < low
      or count > low and units.at(value, low) > units.at(value, count - 1) then
      error('BROKEN value', 0)
    end
    return value
  end

  return units
end

if letter == 'W' then
  local MOST, SMALL = 4096, 64
  local units = algorithm('units')
  local count, at, after = units.count, units.at, units.after

  local function load(value)
    return units.checked(value or 'W'), #(value or '')
  end

  -- Returns the index of the first unit that counts. Units that had expired when a large value grew do not count again, even if the
  -- clock steps back or the window becomes longer.
  local function first_of(value, question)
    local all, low = count(value), 0
    if units.are_large(value) then
      low = all - 2 > at(value, 1) and units.first(value, at(value, 0), at(value, all - 1), 2) or 2
    end
    return units.first(value, question[3], now, low)
  end

  local function show(value, _, question, reply, index)
    local first, all = first_of(value, question), count(value)
    local used = all - first
    local leaving, more = math.max(used + question[2] - question[1] - 1, 0), math.max(used - question[1], 0)
    reply[index + 1] = used
    reply[index + 2] = leaving < used and at(value, first + leaving) or 0
    reply[index + 3] = more < used and at(value, first + more) or 0
    reply[index + 4] = all > 0 and at(value, all - 1) or 0
    return index + 4
  end

  local function dump(value, stored, question)
    local all = count(value)
    if all > 0 then
      local grows, text = units.are_large(value), value
      if grows then
        text = string.sub(value, stored + 1)
      elseif all > SMALL then
        text = 'L' .. struct.pack('<dd', question[3], all) .. string.sub(value, 2)
      end
      return text, at(value, all - 1) + question[3], grows
    end
  end

  -- Removes the units of the given instant or, if none is given, the newest units.
  if verb == 'refund' then
    return load, function(value, _, question)
      local first, from, to = first_of(value, question), 0, count(value)
      if question[5] >= 0 then
        from, to = after(value, first, question[5] - 1), after(value, first, question[5])
      end
      from = math.max(from, first, to - question[2])
      if to > from then
        return units.splice(value, first, from, to, ''), 0, to - from
      end
    end, show, dump
  end

  -- Adds units. A large value grows at its end, and keeps expired units as long as they are at most half of it.
  local function add(value, stored, first, cost, span)
    local all = count(value)
    local index, new = after(value, first, now), units.new(cost, now)
    if units.are_large(value) and at(value, 0) == span and index == all and first <= all / 2 and cost > 0 then
      return value .. new, stored, cost
    end
    return units.splice(value, first, index, index, new), 0, cost
  end

  if verb == 'debit' then
    return load, function(value, stored, question)
      local first = first_of(value, question)
      local room = math.max(MOST - count(value) + first, 0)
      if question[2] <= room or question[4] == 1 then
        return add(value, stored, first, math.min(question[2], room), question[3])
      end
    end, show, dump
  end
  return load, verb == 'spend' and function(value, stored, question)
    local first = first_of(value, question)
    if count(value) - first + question[2] <= question[1] then
      return add(value, stored, first, question[2], question[3])
    end
  end, show, dump
end
