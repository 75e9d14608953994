-- Burst tiers.
--
-- A value is `T`, the number of tiers, the time of the last grant, then a record for each tier: the time of its last
-- entry (-1 if it was never entered), the number of kept units, the place of the oldest unit, and the number of places.
-- The places of all tiers follow, tier after tier, each with the time of one unit. A tier without places only counts
-- its units. Times are doubles, which hold them exactly.
--
-- A state is a value as a table of numbers: the code of `T`, the number of tiers, the time of the last grant, then four
-- numbers for each tier, of which those of tier `i` begin at `4 * i`, and then the places. One call reads it from a
-- value, and one call writes it. The places of a large value stay in its text, which is in the field `value`.
--
-- The arguments: the most and the fewest units to grant; the number of tiers; for each tier the limit, the window, the
-- active period and the cooldown (-1 if infinite), and a sum of 1 if the tier is skippable and 2 if its window slides.

-- Locals are faster than the fields of global tables.
local max, min, huge, byte = math.max, math.min, math.huge, string.byte
local pack, unpack, rep, list = struct.pack, struct.unpack, string.rep, unpack

-- The bytes before the records, and the bytes of a record.
local HEAD, TIER = 10, 20
-- The largest value, in bytes, that is rewritten as a whole. One command replaces three, and all decisions of a call on
-- the bucket share it.
local SMALL = 256
-- The most places of a tier.
local MOST_PLACES = 4096
-- The most numbers that are written in one step. Lua's stack is bounded.
local MOST_NUMBERS = 1000

local INACTIVE, ACTIVE, COOLDOWN = 0, 1, 2

local function span(text)
  local us = tonumber(text)
  return us < 0 and huge or us
end

-- Reads the tiers of a limit into a member: five arguments for each, which begin after `at`. The fields that begin with
-- `phase` belong to the current decision. Creating them here gives each table its final size: growing it is the most
-- expensive step.
local function read_limit(tiers, at, count)
  for i = 1, count do
    local a = at + 5 * i - 4
    local active, kind = span(ARGV[a + 2]), tonumber(ARGV[a + 4])
    tiers[i] = {
      limit = tonumber(ARGV[a]), window = span(ARGV[a + 1]), active = active, ends = active + span(ARGV[a + 3]),
      is_skippable = kind % 2 == 1, slides = kind >= 2, phase = INACTIVE, area = 0, old = 0, used = 0, takes = false,
    }
  end
  tiers.unused = 'T' .. string.char(count) .. pack('<d', 0) .. rep(pack('<dI4I4I4', -1, 0, 0, 0), count)
end

-- Returns the format of states with this number of places.
local function format_of(tiers, places)
  local format = tiers.formats[places]
  if not format then
    format = '<BBd' .. rep('dI4I4I4', #tiers) .. rep('d', places)
    tiers.formats[places] = format
  end
  return format
end

-- Returns a value with the records of as many tiers as the limit has.
local function resize(tiers, value)
  local stored = byte(value, 2)
  local kept = HEAD + TIER * min(stored, #tiers)
  return 'T' .. string.char(#tiers) .. sub(value, 3, kept) .. sub(tiers.unused, kept + 1)
    .. sub(value, 1 + HEAD + TIER * stored)
end

-- Fails if no grants lead to a state. The units of a large value are checked when they are read.
local function check_state(tiers, state)
  local last, area = state[3], 4 * #tiers + 4
  if not (last >= 0 and last < END and last % 1 == 0) then
    error(BROKEN_VALUE, 0)
  end
  for record = 4, 4 * #tiers, 4 do
    local entry, kept, ring = state[record], state[record + 1], state[record + 3]
    local is_possible = entry < 0 and kept == 0 or entry >= 0 and entry <= last and entry % 1 == 0
    -- Loops run over the units, so a broken value must not have more of them than places.
    if not is_possible or ring > 0 and kept > ring or ring > MOST_PLACES then
      error(BROKEN_VALUE, 0)
    end
    local before = 0
    for nth = 0, ring > 0 and not state.value and kept - 1 or -1 do
      local at = state[area + (state[record + 2] + nth) % ring]
      if not (at and at >= before and at <= last and at % 1 == 0) then
        error(BROKEN_VALUE, 0)
      end
      before = at
    end
    area = area + ring
  end
end

-- Reads a value, which is empty if there is no bucket. Returns the state, and the number of its numbers.
local function read_tiers(tiers, value)
  local is_stored = false
  if value == '' then
    value = tiers.unused
  elseif byte(value, 2) ~= #tiers then
    value = resize(tiers, value)
  else
    is_stored = true
  end
  local places, state = (#value - HEAD - TIER * #tiers) / 8, nil
  if places < 0 or places % 1 > 0 then
    error(BROKEN_VALUE, 0)
  elseif #value <= SMALL then
    state = {unpack(format_of(tiers, places), value)}
  else
    state = {unpack(format_of(tiers, 0), value)}
    state.value, state.is_stored = value, is_stored
  end
  check_state(tiers, state)
  return state, 4 * #tiers + 3 + places
end

-- Returns the time of a unit of tier `i`. The oldest kept unit is number 0.
local function unit(tiers, state, i, nth)
  local places = state[4 * i + 3]
  if places == 0 then
    return state[4 * i]
  end
  local place = tiers[i].area + (state[4 * i + 2] + nth) % places
  if state.value then
    local from = HEAD + TIER * #tiers - 32 * #tiers - 31
    local at = unpack('<d', state.value, from + 8 * place)
    if not (at >= 0 and at <= state[3] and at % 1 == 0) then
      error(BROKEN_VALUE, 0)
    end
    return at
  end
  return state[place]
end

-- Returns the number of units that count, and sets how many of the kept units have left the window (`old`). The oldest
-- leave first, so a binary search finds the number: a window of 4096 units takes twelve comparisons.
local function count(tiers, state, i)
  local tier, kept = tiers[i], state[4 * i + 1]
  -- Units that were granted before this have left.
  local low, high, since = 0, kept, tiers.at - tier.window
  if i > 1 and tier.phase == INACTIVE then
    -- A tier above the lowest starts empty each time it is entered.
    low = kept
  elseif kept > 0 and unit(tiers, state, i, 0) < since then
    -- Often, all have left, as those of a tier without places do.
    low = unit(tiers, state, i, kept - 1) < since and kept or 1
    while low < high do
      local middle = floor((low + high) / 2)
      if unit(tiers, state, i, middle) < since then
        low = middle + 1
      else
        high = middle
      end
    end
  end
  tier.old, tier.used = low, kept - low
  return kept - low
end

-- Finds the phases of all tiers. Returns the tier in force.
local function look(tiers, state)
  local at, area, from = state[3], 4 * #tiers + 4, 1
  if at < now then
    -- If the clock has stepped back, decide at the time of the last grant. Otherwise, grants would lie in the future.
    at = now
  end
  for i = 1, #tiers do
    local tier, entry = tiers[i], state[4 * i]
    local age = at - entry
    if entry < 0 or age > tier.ends then
      tier.phase = INACTIVE
    elseif age > tier.active then
      tier.phase = COOLDOWN
    else
      tier.phase, from = ACTIVE, i
    end
    tier.area, tier.takes = area, false
    area = area + state[4 * i + 3]
  end
  tiers.at = at
  return from
end

-- Returns the number of units to grant, and sets `takes` of each tier that the grant enters or draws from. Nothing else
-- changes yet, so a rejection leaves no trace.
local function plan(tiers, state, most, least)
  local granted = 0
  for i = look(tiers, state), #tiers do
    local tier = tiers[i]
    if tier.phase ~= COOLDOWN then
      local units = tier.limit - count(tiers, state, i)
      if units > most - granted then
        units = most - granted
      elseif units < 0 then
        units = 0
      end
      -- A full tier that is passed on the way up is also entered.
      tier.takes, granted = units, granted + units
    elseif not tier.is_skippable then
      -- The tiers above it are out of reach.
      break
    end
    if granted == most then
      break
    end
  end
  return granted < least and 0 or granted
end

-- Reports the state on which the figures for a request of `least` units depend: for each tier, its oldest units,
-- `least` of them and one more for each unit above a limit that was lowered. Appends the report to `seen`, which has `at`
-- values.
local function report(tiers, state, least, seen, at)
  for i = 1, #tiers do
    local tier, kept, used = tiers[i], state[4 * i + 1], count(tiers, state, i)
    local over = max(used - tier.limit, 0)
    local shown = state[4 * i + 3] > 0 and min(least + over, used) or 0
    local newest = used > 0 and unit(tiers, state, i, kept - 1) or 0
    seen[at + 1], seen[at + 2], seen[at + 3], seen[at + 4] = state[4 * i], used, newest, shown
    at = at + 4
    for nth = tier.old, tier.old + shown - 1 do
      at = at + 1
      seen[at] = unit(tiers, state, i, nth)
    end
  end
  return seen
end

-- Takes the planned units within a state of `filled` numbers that has no text. Returns the number of its numbers after
-- that. Returns nil, and changes nothing, if a tier needs other places.
local function take_within(tiers, state, filled)
  for i = 1, #tiers do
    local tier = tiers[i]
    if tier.takes and (state[4 * i + 3] ~= (tier.slides and tier.limit or 0) or state[4 * i + 2] > 0) then
      return nil
    end
  end
  local at = tiers.at
  state[3] = at
  for i = 1, #tiers do
    local tier = tiers[i]
    local takes = tier.takes
    if takes then
      local record, first = 4 * i, tier.old
      local kept, places, area = state[record + 1], state[record + 3], tier.area
      if tier.phase == INACTIVE then
        state[record] = at
      end
      if places > 0 then
        if kept + takes - places > first then
          first = kept + takes - places
        end
        if first > 0 then
          for place = area + first, area + kept - 1 do
            state[place - first] = state[place]
          end
        end
        local stop = area + kept - first
        for place = filled + 1, stop - 1 do
          state[place] = 0
        end
        for place = stop, stop + takes - 1 do
          state[place] = at
        end
        -- Only the last stored units can be followed by places that are no longer used.
        filled = filled < area + places and stop + takes - 1 or filled
      end
      state[record + 1] = kept - first + takes
    end
  end
  return filled
end

-- Takes the planned units. Returns the new state, in the table `new`, and the number of its numbers. Unused places at
-- the end are left out.
local function take(tiers, state, new)
  local at, filled, area = tiers.at, 4 * #tiers + 3, 4 * #tiers + 3
  new[1], new[2], new[3] = 84, #tiers, at
  for i = 1, #tiers do
    local tier, record = tiers[i], 4 * i
    local entry, kept, places, takes = state[record], state[record + 1], state[record + 3], tier.takes
    local first, units = 0, kept
    if takes then
      places = tier.slides and tier.limit or 0
      -- The places of a tier are a ring with as many places as its limit. A lowered limit drops the oldest units.
      first = tier.old
      if places > 0 and kept + takes - places > first then
        first = kept + takes - places
      end
      units = kept - first + takes
    end
    new[record], new[record + 1], new[record + 2] = takes and tier.phase == INACTIVE and at or entry, units, 0
    new[record + 3] = places
    if places > 0 then
      for place = filled + 1, units > 0 and area or 0 do
        new[place] = 0
      end
      local oldest, ring = state[record + 2], state[record + 3]
      if oldest + kept <= ring and not state.value then
        -- The units are next to each other, as almost always.
        local from, to = tier.area + oldest + first, area + 1
        for nth = 0, kept - first - 1 do
          new[to + nth] = state[from + nth]
        end
      else
        for nth = first, kept - 1 do
          new[area + 1 + nth - first] = unit(tiers, state, i, nth)
        end
      end
      for place = area + 1 + kept - first, area + units do
        new[place] = at
      end
      filled = units > 0 and area + units or filled
      area = area + places
    end
  end
  return new, filled
end

-- Returns the value of a state without a text.
local function write_tiers(tiers, state, filled)
  local places = filled - 4 * #tiers - 3
  if places <= MOST_NUMBERS then
    return pack(format_of(tiers, places), list(state, 1, filled))
  end
  local value = pack(format_of(tiers, 0), list(state, 1, filled - places))
  for from = filled - places + 1, filled, MOST_NUMBERS do
    local to = min(from + MOST_NUMBERS - 1, filled)
    value = value .. pack('<' .. rep('d', to - from + 1), list(state, from, to))
  end
  return value
end

-- Returns whether the stored value is large and has the places of the tiers that take units, so that it can be changed
-- in place.
local function fits(tiers, state)
  if not state.is_stored then
    return false
  end
  for i = 1, #tiers do
    local tier = tiers[i]
    if tier.takes and state[4 * i + 3] ~= (tier.slides and tier.limit or 0) then
      return false
    end
  end
  return true
end

-- Writes the head and the new units, however large the value is. If the server refuses writes, it refuses the first
-- command, so the value never changes halfway.
local function write_into(key, tiers, state)
  local at = tiers.at
  call('SETRANGE', key, 2, pack('<d', at))
  for i = 1, #tiers do
    local tier, kept, places = tiers[i], state[4 * i + 1], state[4 * i + 3]
    if tier.takes then
      local ring = max(places, 1)
      local first = places > 0 and max(tier.old, kept + tier.takes - places) or tier.old
      local oldest, units = (state[4 * i + 2] + first) % ring, kept - first + tier.takes
      local place, left = (oldest + kept - first) % ring, places > 0 and tier.takes or 0
      while left > 0 do
        local straight = min(left, places - place)
        local from = HEAD + TIER * #tiers + 8 * (tier.area - 4 * #tiers - 4 + place)
        call('SETRANGE', key, from, rep(pack('<d', at), straight))
        place, left = 0, left - straight
      end
      local entry = tier.phase == INACTIVE and at or state[4 * i]
      call('SETRANGE', key, HEAD + TIER * (i - 1), pack('<dI4I4I4', entry, units, oldest, places))
    end
  end
end

-- Returns the instant from which no decision depends on the bucket, once the planned units are taken.
local function lapses(tiers, state)
  local at, last, lowest, kept = tiers.at, 0, tiers[1], state[5]
  if lowest.takes and lowest.takes > 0 then
    last = at + lowest.window + 1
  elseif kept > 0 then
    last = unit(tiers, state, 1, kept - 1) + lowest.window + 1
  end
  for i = 1, #tiers do
    local tier, entry = tiers[i], state[4 * i]
    if tier.takes and tier.phase == INACTIVE then
      entry = at
    end
    if entry >= 0 and entry + tier.ends >= last and (i > 1 or tier.active < huge) then
      last = entry + tier.ends + 1
    end
  end
  return last
end

local function load(key, tiers, count)
  local stored, text = load_text(key, 'T')
  local state, filled = read_tiers(tiers, text)
  tiers.filled, tiers.is_run = filled, count > 1
  return stored, state, false
end

-- Decides a request. The state is its table, and the instant from which no decision depends on the bucket. The units are
-- taken from the table, except from a large value, which is then changed in place.
local function ask(state, last, tiers)
  local granted = plan(tiers, state, tiers.most, tiers.least)
  local shown = state.value and report(tiers, state, tiers.least, {tiers.at}, 1)
  if tiers.only_reads then
    return state, last, 0, shown
  elseif granted == 0 then
    return nil, nil, 0, shown
  end
  last = lapses(tiers, state)
  if tiers.is_run or not fits(tiers, state) then
    local filled = not state.value and take_within(tiers, state, tiers.filled)
    if not filled then
      state, filled = take(tiers, state, {})
    end
    tiers.filled = filled
  end
  return state, last, granted, shown
end

-- Keeps the grants until no decision depends on them.
local function keep(key, state, last, tiers)
  if state.value then
    write_into(key, tiers, state)
    if last == huge then
      call('PERSIST', key)
    else
      call('PEXPIRE', key, ttl(last))
    end
  elseif last == huge then
    call('SET', key, write_tiers(tiers, state, tiers.filled))
  else
    call('SET', key, write_tiers(tiers, state, tiers.filled), 'PX', ttl(last))
  end
end

return function(at, verb)
  local tiers, count = {
    load = load, ask = ask, keep = keep, most = tonumber(ARGV[at]), least = tonumber(ARGV[at + 1]), formats = {},
    unused = '', at = 0, filled = 0, is_run = false, only_reads = verb == 'look', reports = true, taken = 0,
    votes = true, is_marked = false, seen = false, state = '', other = 0, changes = false,
  }, tonumber(ARGV[at + 2])
  read_limit(tiers, at + 2, count)
  return tiers, at + 3 + 5 * count
end
