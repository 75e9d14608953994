-- Burst tiers.
-- Value: `T`, the number of tiers and the instant of the last grant. Then for each tier: the instant of its last entry, or -1; the
-- number of its units; the slot of the oldest one; and the number of slots. Then the slots of all tiers, each with the instant of a
-- unit. Unused tiers at the end can be missing. A tier without slots only counts its units, as if all were granted on entry.
-- State: a table with the instant of the last grant and a log for each tier; and the present grant, as 2^32 times the bits of its
-- tiers, plus the units from the lowest of them. A log has the entry, the number of counted units, and the other units as a window
-- lists them.
-- Question: the cost and the smallest acceptable grant. Then for each tier: the limit; the window, the active period and the
-- cooldown, or -1 for an endless one; and 1 if it is skippable, plus 2 if the window slides.
-- Shows the grant and the instant of the last one. Then for each tier: the entry; the units that count; the instant of the newest
-- of them; and the number and the instants of the oldest ones. These are as many as the smallest acceptable grant, and one more for
-- each unit above a limit that was lowered.
if letter == 'T' then
  local units = algorithm('units')
  local sub, min, max, huge = string.sub, math.min, math.max, math.huge
  local INACTIVE, ACTIVE, COOLDOWN = 0, 1, 2
  local UNTOUCHED = {entry = -1, counted = 0, units = 'W'}

  local function expect(is_possible)
    if not is_possible then
      error('BROKEN value', 0)
    end
  end

  -- The slots of a tier are a ring, which begins at any slot if an earlier version has written it.
  local function load_log(value, i, last, at)
    local entry, kept, oldest, slots = struct.unpack('<dI4I4I4', value, 20 * i - 9)
    local log = {entry = entry, counted = slots == 0 and kept or 0, units = 'W'}
    expect(entry == -1 and kept == 0 or entry >= 0 and entry <= last and entry % 1 == 0)
    if slots > 0 then
      local ring = sub(value, at, at + 8 * slots - 1)
      log.units = 'W' .. sub(ring, 1 + 8 * oldest, 8 * (oldest + kept)) .. sub(ring, 1, 8 * max(oldest + kept - slots, 0))
      expect(kept <= slots and units.count(log.units) == kept)
      expect(kept == 0 or units.at(units.checked(log.units), kept - 1) <= last)
    end
    return log, at + 8 * slots
  end

  local function load(value)
    local state = {last = 0}
    if value then
      local count, last = string.byte(value, 2), struct.unpack('<d', value, 3)
      expect(sub(value, 1, 1) == 'T' and last >= 0 and last < 2^53 and last % 1 == 0)
      local at = 11 + 20 * count
      for i = 1, count do
        state[i], at = load_log(value, i, last, at)
      end
      state.last = last
    end
    return state, 0
  end

  local function read(question)
    local list = {}
    for at = 3, #question - 5, 5 do
      for n = at + 1, at + 3 do
        question[n] = question[n] < 0 and huge or question[n]
      end
      list[#list + 1] = {
        limit = question[at], window = question[at + 1], active = question[at + 2], ends = question[at + 2] + question[at + 3],
        is_skippable = question[at + 4] % 2 == 1, slides = question[at + 4] > 1, phase = INACTIVE, first = 0, used = 0, takes = 0,
      }
    end
    question.list = list
    return list
  end

  -- Finds the phases and the units of all tiers. Returns the tiers, the number of the tier in force, and the instant of the
  -- decision. If the clock has stepped back, that is the instant of the last grant.
  local function look(state, question)
    local list, at, in_force = question.list or read(question), max(now, state.last), 1
    for i = 1, #list do
      local tier, log = list[i], state[i] or UNTOUCHED
      local age = at - log.entry
      tier.phase, tier.takes = INACTIVE, nil
      if log.entry >= 0 and age < tier.active then
        tier.phase, in_force = ACTIVE, i
      elseif log.entry >= 0 and age < tier.ends then
        tier.phase = COOLDOWN
      end
      tier.first, tier.used = units.first(log.units, tier.window, at), 0
      -- A tier above the lowest starts empty each time it is entered.
      if i == 1 or tier.phase ~= INACTIVE then
        tier.used = units.count(log.units) - tier.first + (age < tier.window and log.counted or 0)
      end
    end
    return list, in_force, at
  end

  local function show(state, granted, question, reply, index)
    local list = look(state, question)
    reply[index + 1], reply[index + 2], index = granted, state.last, index + 2
    for i = 1, #list do
      local tier, log = list[i], state[i] or UNTOUCHED
      local all = tier.used > 0 and units.count(log.units) or 0
      local shown = min(question[2] + max(tier.used - tier.limit, 0), max(all - tier.first, 0))
      reply[index + 1], reply[index + 2] = log.entry, tier.used
      reply[index + 3], reply[index + 4], index = all > 0 and units.at(log.units, all - 1) or 0, shown, index + 4
      for nth = tier.first, tier.first + shown - 1 do
        index = index + 1
        reply[index] = units.at(log.units, nth)
      end
    end
    return index
  end

  -- A lowest tier that never ends decides the same whether it was entered or not. So its value counts until its last unit leaves
  -- the window.
  local function dump(state, _, question)
    local heads, bodies, last = {}, {}, 0
    for i = 1, #state do
      local log, tier = state[i], question.list[i]
      local kept = units.count(log.units)
      heads[i], bodies[i] = struct.pack('<dI4I4I4', log.entry, kept + log.counted, 0, kept), sub(log.units, 2)
      if log.entry >= 0 and (i > 1 or tier.active < huge) then
        last = max(last, log.entry + tier.ends)
      end
      if i == 1 and kept + log.counted > 0 then
        last = max(last, (kept > 0 and units.at(log.units, kept - 1) or log.entry) + tier.window)
      end
    end
    if #state > 0 then
      local head = 'T' .. string.char(#state) .. struct.pack('<d', state.last)
      return head .. table.concat(heads) .. table.concat(bodies), last
    end
  end

  if verb ~= 'spend' then
    return load, nil, show, dump
  end

  -- Returns the log of a tier after it has granted its units. If the limit was lowered, the oldest units are dropped.
  local function grant(log, tier, i, at)
    if tier.phase == INACTIVE then
      log = {entry = at, counted = i == 1 and log.counted or 0, units = i == 1 and log.units or 'W', before = log.entry}
    end
    if not tier.slides then
      return {entry = log.entry, counted = tier.used + tier.takes, units = 'W'}
    end
    local entry, room = log.before or log.entry, max(tier.limit - tier.takes, 0)
    local counted = at - entry < tier.window and min(log.counted, room) or 0
    local value = log.units .. units.new(counted, entry)
    local all = units.count(value)
    local drop = max(units.first(value, tier.window, at), all - room)
    return {entry = log.entry, counted = 0, units = units.splice(value, drop, all, all, units.new(tier.takes, at))}
  end

  return load, function(state, _, question)
    local list, in_force, at = look(state, question)
    local left, passed, bits, lowest = question[1], 0, 0, nil
    for i = in_force, #list do
      local tier = list[i]
      if tier.phase == COOLDOWN and not tier.is_skippable or left == 0 then
        break
      elseif tier.phase ~= COOLDOWN then
        tier.takes = min(max(tier.limit - tier.used, 0), left)
        -- A tier without units left is entered, too, if a tier above it grants some.
        left, passed, lowest = left - tier.takes, passed + 2 ^ (i - 1), lowest or tier.takes
        bits = tier.takes > 0 and passed or bits
      end
    end
    if question[1] - left < question[2] then
      return nil
    end
    local after = {last = at}
    for i = 1, #list do
      local takes = list[i].takes and 2 ^ (i - 1) <= bits
      after[i] = takes and grant(state[i] or UNTOUCHED, list[i], i, at) or state[i] or UNTOUCHED
    end
    return after, bits * 4294967296 + lowest, question[1] - left
  end, show, dump
end
