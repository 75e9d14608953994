-- The permits of concurrency limits.
-- Value: `C`, the units of all permits, and three doubles for each permit: the instant at which it was taken or last renewed, its
-- name, and its units. Permits are in the order of their instants, so expired ones come first.
-- State: the list of permits as text, and their units.
-- Question: the limit; the cost; how long a permit counts; the name of the permit, or -1; and a zero.
-- Shows the units that count.
if letter == 'C' then
  local SIZE = 24
  local sub = string.sub

  -- Returns a number of a permit: its instant, its name, or its units. The oldest permit has the index 0.
  local function field(list, index, which)
    local value = struct.unpack('<d', list, SIZE * index + 8 * which + 1)
    if not (value >= 0 and value < 2^53 and value % 1 == 0) then
      error('BROKEN value', 0)
    end
    return value
  end

  local function seen(list, index)
    return field(list, index, 0)
  end

  local function units(list, index)
    return field(list, index, 2)
  end

  -- Reads a value of an earlier version: `W`, and the instants of permits without names, in ascending order.
  local function of_instants(value)
    local list, count = {}, (#value - 1) / 8
    for nth = 1, count do
      list[nth] = sub(value, 8 * nth - 6, 8 * nth + 1) .. struct.pack('<dd', 0, 1)
    end
    return table.concat(list), count
  end

  local function load(value)
    if not value then
      return '', 0
    end
    if sub(value, 1, 1) == 'W' then
      return of_instants(value)
    end
    if sub(value, 1, 1) ~= 'C' or #value < 9 or (#value - 9) % SIZE > 0 then
      error('BROKEN value', 0)
    end
    return sub(value, 10), field(sub(value, 2, 9), 0, 0)
  end

  -- Returns the permits that count, and their units.
  local function counting(list, total, question)
    local first = 0
    while SIZE * first < #list and seen(list, first) + question[3] <= now do
      total, first = total - units(list, first), first + 1
    end
    return first > 0 and sub(list, SIZE * first + 1) or list, total
  end

  local function show(list, total, question, reply, index)
    local _, used = counting(list, total, question)
    reply[index + 1] = used
    return index + 1
  end

  local function dump(list, total, question)
    if #list > 0 then
      return 'C' .. struct.pack('<d', total) .. list, seen(list, #list / SIZE - 1) + question[3]
    end
  end

  -- Returns the index of the permit of the question, or nil.
  local function find(list, question)
    local name, from = struct.pack('<d', question[4]), 1
    repeat
      local at = string.find(list, name, from, true)
      if at and at % SIZE == 9 then
        return (at - 9) / SIZE
      end
      from = at and at + 1
    until not at
  end

  local function without(list, index)
    return sub(list, 1, SIZE * index) .. sub(list, SIZE * index + SIZE + 1)
  end

  if verb == 'refund' then
    return load, function(list, total, question)
      list, total = counting(list, total, question)
      local index = find(list, question)
      if not index then
        return
      end
      local count = units(list, index)
      local back = math.min(count, question[2])
      if back == count then
        return without(list, index), total - back, back
      end
      local at = SIZE * index + 17
      return sub(list, 1, at - 1) .. struct.pack('<d', count - back) .. sub(list, at + 8), total - back, back
    end, show, dump
  end

  -- Adds a permit of the present instant, in front of later ones. There are later ones if the clock has stepped back.
  local function add(list, question, count)
    local index = #list / SIZE
    while index > 0 and seen(list, index - 1) > now do
      index = index - 1
    end
    return sub(list, 1, SIZE * index) .. struct.pack('<ddd', now, question[4], count) .. sub(list, SIZE * index + 1)
  end

  local function renewed(list, total, index, question)
    local count = units(list, index)
    return add(without(list, index), question, count), total, count
  end

  if verb == 'renew' then
    return load, function(list, total, question)
      list, total = counting(list, total, question)
      local index = find(list, question)
      if index then
        return renewed(list, total, index, question)
      end
    end, show, dump
  end

  -- A repeated spend finds its permit in the list.
  return load, verb == 'spend' and function(list, total, question)
    list, total = counting(list, total, question)
    local index, cost = find(list, question), question[2]
    if index then
      return renewed(list, total, index, question)
    end
    if total + cost <= question[1] then
      return cost > 0 and add(list, question, cost) or list, total + cost, cost
    end
  end, show, dump
end
