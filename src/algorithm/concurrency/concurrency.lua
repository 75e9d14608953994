-- The permits of concurrency limits. A value is `C`, the units of all permits, and for each permit, in the order of the instants,
-- three doubles: the instant at which it was taken or renewed last, its name, and its units. Expired permits can come first. The
-- state is the list of permits as text, and their units.
-- A term: the limit; the cost; how long a permit counts; and the name of the permit, or -1, and a zero. Shows the units that count.

function algorithms.C()
  local SIZE = 24
  local permits = {}

  -- Returns a number of a permit: its instant, its name, or its units. The oldest permit is number 0.
  local function field(list, nth, which)
    local value = unpack('<d', list, SIZE * nth + 8 * which + 1)
    if not (value >= 0 and value < END and value % 1 == 0) then
      error(BROKEN, 0)
    end
    return value
  end

  local function seen(list, nth)
    return field(list, nth, 0)
  end

  local function units(list, nth)
    return field(list, nth, 2)
  end

  function permits.load(value)
    if not value then
      return '', 0
    end
    if sub(value, 1, 1) ~= 'C' or #value < 9 or (#value - 9) % SIZE > 0 then
      error(BROKEN, 0)
    end
    return sub(value, 10), field(sub(value, 2, 9), 0, 0)
  end

  -- Returns the permits that count, and their units.
  local function counting(list, total, term)
    local first = 0
    while SIZE * first < #list and seen(list, first) + term[3] <= now do
      total, first = total - units(list, first), first + 1
    end
    return first > 0 and sub(list, SIZE * first + 1) or list, total
  end

  -- Returns the number of the permit of the term, or nil.
  local function find(list, term)
    local name, from = pack('<d', term[4]), 1
    repeat
      local at = string.find(list, name, from, true)
      if at and at % SIZE == 9 then
        return (at - 9) / SIZE
      end
      from = at and at + 1
    until not at
  end

  local function without(list, nth)
    return sub(list, 1, SIZE * nth) .. sub(list, SIZE * nth + SIZE + 1)
  end

  -- Adds a permit of this instant. Later ones are there if the clock has stepped back.
  local function add(list, term, count)
    local place = #list / SIZE
    while place > 0 and seen(list, place - 1) > now do
      place = place - 1
    end
    return sub(list, 1, SIZE * place) .. pack('<ddd', now, term[4], count) .. sub(list, SIZE * place + 1)
  end

  local function renewed(list, total, nth, term)
    local count = units(list, nth)
    return add(without(list, nth), term, count), total, count
  end

  function permits.renew(list, total, term)
    list, total = counting(list, total, term)
    local nth = find(list, term)
    if nth then
      return renewed(list, total, nth, term)
    end
  end

  -- A spend that is repeated is about a permit that is there already.
  function permits.spend(list, total, term)
    list, total = counting(list, total, term)
    local nth, cost = find(list, term), term[2]
    if nth then
      return renewed(list, total, nth, term)
    end
    if total + cost <= term[1] then
      return cost > 0 and add(list, term, cost) or list, total + cost, cost
    end
  end

  function permits.refund(list, total, term)
    list, total = counting(list, total, term)
    local nth = find(list, term)
    if not nth then
      return
    end
    local count = units(list, nth)
    local back = min(count, term[2])
    if back == count then
      return without(list, nth), total - back, back
    end
    local at = SIZE * nth + 17
    return sub(list, 1, at - 1) .. pack('<d', count - back) .. sub(list, at + 8), total - back, back
  end

  function permits.show(list, total, term, reply, place)
    local _, used = counting(list, total, term)
    reply[place + 1] = used
    return place + 1
  end

  function permits.dump(list, total, term)
    if #list > 0 then
      return 'C' .. pack('<d', total) .. list, seen(list, #list / SIZE - 1) + term[3]
    end
  end

  return permits
end
