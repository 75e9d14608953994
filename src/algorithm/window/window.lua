-- Buckets with windows. Precedes `member.lua`.
--
-- `units.lua` describes the values. Expired units may come first.

local MOST_UNITS = 4096
-- The most units that are reported individually. For more units, the reply only has those that the figures depend on:
-- at most three for the state before the change, and three for the state after it.
local FEW = 16
-- A value with more units than this stays on the server: the script reads the parts that it needs, and appends new
-- units.
local SMALL_WINDOW = 64
-- The number of units to read at once when a search has narrowed down to them.
local BLOCK = 256

-- Returns the stored units of a value: either its whole text, or its key and the parts read so far. The units of a small
-- value are checked here, and those of a large one when they are read.
local function units_of(text, key, all)
  local instants, fault = nil, nil
  if text and #text <= 1 + 8 * SMALL_WINDOW then
    instants, fault = read_units(text)
  elseif text and #text % 8 ~= 1 then
    fault = BROKEN_VALUE
  end
  if fault then
    error(fault, 0)
  end
  return {text = text, key = key, all = all, from = 0, to = 0, block = '', ends = {}, instants = instants}
end

local function checked(at)
  if not (at >= 0 and at < END and at % 1 == 0) then
    error(BROKEN_VALUE, 0)
  end
  return at
end

-- Returns the instant at which a unit was taken. The oldest unit is number 0.
local function taken(units, nth)
  if units.instants then
    return units.instants[nth + 1]
  elseif units.text then
    return checked(struct.unpack('<d', units.text, 2 + 8 * nth))
  elseif nth >= units.from and nth < units.to then
    return checked(struct.unpack('<d', units.block, 1 + 8 * (nth - units.from)))
  end
  local at = units.ends[nth]
  if not at then
    at = checked(struct.unpack('<d', redis.call('GETRANGE', units.key, 1 + 8 * nth, 8 + 8 * nth)))
    units.ends[nth] = at
  end
  return at
end

-- Counts the units from number `low` on that were taken at or before an instant.
local function count_until(units, low, instant)
  local high = units.all
  -- Usually all units were, because no unit is newer than now unless the clock has stepped back.
  if high > low and taken(units, high - 1) <= instant then
    return high - low
  end
  local first = low
  while low < high do
    if not units.text and high - low <= BLOCK and (low < units.from or high > units.to) then
      units.from, units.to = low, high
      units.block = redis.call('GETRANGE', units.key, 1 + 8 * low, 8 * high)
    end
    local middle = math.floor((low + high) / 2)
    if taken(units, middle) <= instant then
      low = middle + 1
    else
      high = middle
    end
  end
  return low - first
end

-- Returns the change that a request makes, or nil if the request does not fit: the number of counting units before the
-- change, and the number of units to add there or, if negative, to remove there.
local function change_units(window, how, cost, named)
  local used = window.used
  if how == 'spend' and used + cost <= window.limit or how == 'debit' and used + cost <= MOST_UNITS then
    return window.until_now, cost
  elseif how == 'fill' then
    return window.until_now, math.min(cost, math.max(MOST_UNITS - used, 0))
  elseif how == 'earlier' then
    local counts = window.at + window.span > now
    return window.until_named, counts and math.min(cost, math.max(MOST_UNITS - used, 0)) or 0
  elseif how == 'refund' and named < 0 then
    local units = math.min(cost, used)
    return used - units, -units
  elseif how == 'refund' then
    local units = math.min(cost, window.until_named - window.until_before)
    return window.until_named - units, -units
  elseif how == 'keep' then
    return 0, 0
  end
  return nil
end

-- Reports the units on which the figures depend, once `units` units are added after the first `after` ones. Each is a
-- number and an instant.
local function report_units(window, seen, cost, after, units)
  local used = window.used + units
  local over = math.max(used - window.limit, 0)
  for _, nth in ipairs({used + cost - window.limit - 1, used - 1, over}) do
    if nth >= 0 and nth < used then
      if units < 0 and nth >= after then
        nth = nth - units
      elseif units > 0 and nth >= after + units then
        nth = nth - units
      elseif units > 0 and nth >= after then
        nth = -1
      end
      if nth >= 0 then
        seen[#seen + 1], seen[#seen + 2] = nth, taken(window.stored, window.first + nth)
      end
    end
  end
end

-- Reads a window, and computes the change that a request makes to it. Returns the window, whether the request fits, and
-- the report: `W`, the number of counting units, and the instant of each. For more than `FEW` units, the report has the
-- number of units taken by now, by the named instant and before the named instant, and then a few units with their
-- numbers.
local function ask_window(stored, at)
  local window = {stored = stored, limit = tonumber(ARGV[at + 1]), span = tonumber(ARGV[at + 2])}
  local how, cost, named = ARGV[at], tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  window.at = now
  if how == 'earlier' then
    named = math.max(now - named, 0)
    window.at = named
  end
  -- Expired units are skipped here, and removed by a later change. A denial writes nothing.
  window.first = 0
  if stored.all > 0 and taken(stored, 0) + window.span <= now then
    window.first = count_until(stored, 0, now - window.span)
  end
  window.used = stored.all - window.first
  window.until_now = count_until(stored, window.first, now)
  window.until_named, window.until_before = 0, 0
  if named >= 0 then
    window.until_named = count_until(stored, window.first, named)
    window.until_before = count_until(stored, window.first, named - 1)
  end
  local after, units = change_units(window, how, cost, named)
  window.after, window.units = after, units or 0
  local seen = {'W', window.used}
  if window.used <= FEW then
    for nth = 0, window.used - 1 do
      seen[nth + 3] = taken(stored, window.first + nth)
    end
  else
    seen[3], seen[4], seen[5] = window.until_now, window.until_named, window.until_before
    report_units(window, seen, cost, 0, 0)
    if units and units ~= 0 then
      report_units(window, seen, cost, after, units)
    end
  end
  return window, units ~= nil, seen
end

-- Returns whether the new units can be appended to the stored value. A value that has mostly expired is rewritten
-- instead.
local function can_append(window)
  return not window.stored.text and window.units > 0 and window.after == window.used
    and window.first <= math.max(window.used, SMALL_WINDOW)
end

-- Returns the text after the change, and the instant at which its last unit expires.
local function changed_text(window)
  local text, from = window.stored.text, 2 + 8 * window.first
  text = text or redis.call('GET', window.stored.key)
  local middle = from + 8 * window.after
  local rest, added = middle, ''
  if window.units > 0 then
    added = string.rep(struct.pack('<d', window.at), window.units)
  else
    rest = middle - 8 * window.units
  end
  text = 'W' .. string.sub(text, from, middle - 1) .. added .. string.sub(text, rest)
  local units = math.floor(#text / 8)
  if units == 0 then
    return '', 0
  end
  return text, struct.unpack('<d', text, 2 + 8 * (units - 1)) + window.span
end
