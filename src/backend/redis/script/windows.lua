-- What `batch.lua`, which follows, needs for windows.
--
-- A value is `W`, and when each unit was taken, in ascending order. Times are doubles, which hold them exactly.

local MOST_UNITS = 4096
-- So many units are reported one by one.
-- More would make the reply as long as the window, for figures that depend on three of them at most.
local FEW = 16

-- When a unit was taken, counted from the oldest, which is 0.
local function taken(text, nth)
  return (struct.unpack('<d', text, 2 + 8 * nth))
end

-- How many units were taken at or before an instant, of those from `low` on.
local function count_until(text, low, instant)
  local high = math.floor(#text / 8)
  -- Almost always all of them were: nothing is newer than now, unless a clock has stepped back.
  if high > low and taken(text, high - 1) <= instant then
    return high - low
  end
  local first = low
  while low < high do
    local middle = math.floor((low + high) / 2)
    if taken(text, middle) <= instant then
      low = middle + 1
    else
      high = middle
    end
  end
  return low - first
end

-- What a request does to the units that count: after how many of them it adds so many, or takes so many away if that is
-- negative; nothing, if it does not fit.
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

-- Adds the units that the figures depend on once `units` are added after `after` of them.
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
        seen[#seen + 1], seen[#seen + 2] = nth, taken(window.text, window.first + nth)
      end
    end
  end
end

-- Reads a window and what a request does to it. Returns the window, whether that fits, and what there was as far as the
-- request has to know it: `W`, how many units count, and each of them; or, if they are not few, how many of them were taken until
-- now and until and before the instant that is named, and some units with their places.
local function ask_window(text, at)
  local window = {text = text, limit = tonumber(ARGV[at + 1]), span = tonumber(ARGV[at + 2])}
  local how, cost, named = ARGV[at], tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  window.at = now
  if how == 'earlier' then
    named = math.max(now - named, 0)
    window.at = named
  end
  local all = math.floor(#text / 8)
  -- Units that have expired are skipped here, and cut off with the next change. A denial writes nothing.
  window.first = 0
  if all > 0 and taken(text, 0) + window.span <= now then
    window.first = count_until(text, 0, now - window.span)
  end
  window.used = all - window.first
  window.until_now = count_until(text, window.first, now)
  window.until_named, window.until_before = 0, 0
  if named >= 0 then
    window.until_named = count_until(text, window.first, named)
    window.until_before = count_until(text, window.first, named - 1)
  end
  local after, units = change_units(window, how, cost, named)
  window.after, window.units = after, units or 0
  local seen = {'W', window.used}
  if window.used <= FEW then
    for nth = 0, window.used - 1 do
      seen[nth + 3] = taken(text, window.first + nth)
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

-- The text once the units are added or taken away, and when none of them counts any more.
local function changed_text(window)
  local text, from = window.text, 2 + 8 * window.first
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
  return text, taken(text, units - 1) + window.span
end

