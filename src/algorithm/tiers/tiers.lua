-- Burst tiers. A value is `T`, the number of tiers and the instant of the last grant; for each tier the instant of its last
-- entry, or -1, the number of its units, the place of the oldest one and the number of places; then the places of all tiers,
-- each with the instant of a unit. Unused ones at the end can be missing. Without places, a tier only counts its units, as if all
-- were granted on entry. Instants are doubles. The state is a table of the last instant and a log for each tier, and a grant:
-- 2^32 times the bits of its tiers, plus the units from the lowest of them. A log has an entry, a number of counted units, and
-- the others as a window lists them.
-- A term: the cost and the smallest acceptable grant; then for each tier the limit; the window, the active period and the
-- cooldown, or -1 for an endless one; and 1 if it is skippable, plus 2 if the window slides. Shows the grant and the last
-- instant; then for each tier the entry, the units that count, the instant of the newest of them, and the number and the
-- instants of the oldest: as many as the smallest acceptable grant, and one more for each unit above a limit that was lowered.
function algorithms.T()
  local tiers, units = {}, units_in_text()
  local INACTIVE, ACTIVE, COOLDOWN = 0, 1, 2
  local UNTOUCHED = {entry = -1, counted = 0, units = 'W'}

  local function expect(is_possible)
    if not is_possible then
      error(BROKEN, 0)
    end
  end

  -- The places of a tier are a ring, in which an earlier version starts anywhere.
  local function load_log(value, i, last, place)
    local entry, kept, oldest, places = unpack('<dI4I4I4', value, 20 * i - 9)
    local log = {entry = entry, counted = places == 0 and kept or 0, units = 'W'}
    expect(entry == -1 and kept == 0 or entry >= 0 and entry <= last and entry % 1 == 0)
    if places > 0 then
      local ring = sub(value, place, place + 8 * places - 1)
      log.units = 'W' .. sub(ring, 1 + 8 * oldest, 8 * (oldest + kept)) .. sub(ring, 1, 8 * max(oldest + kept - places, 0))
      expect(kept <= places and units.count(log.units) == kept)
      expect(kept == 0 or units.at(units.checked(log.units), kept - 1) <= last)
    end
    return log, place + 8 * places
  end

  function tiers.load(value)
    local state = {last = 0}
    if value then
      local count, last = byte(value, 2), unpack('<d', value, 3)
      expect(sub(value, 1, 1) == 'T' and last >= 0 and last < END and last % 1 == 0)
      local place = 11 + 20 * count
      for i = 1, count do
        state[i], place = load_log(value, i, last, place)
      end
      state.last = last
    end
    return state, 0
  end

  local function read(term)
    local list = {}
    for at = 3, #term - 5, 5 do
      for n = at + 1, at + 3 do
        term[n] = term[n] < 0 and huge or term[n]
      end
      list[#list + 1] = {
        limit = term[at], window = term[at + 1], active = term[at + 2], ends = term[at + 2] + term[at + 3],
        is_skippable = term[at + 4] % 2 == 1, slides = term[at + 4] > 1, phase = INACTIVE, first = 0, used = 0, takes = 0,
      }
    end
    term.list = list
    return list
  end

  -- Finds the phases and the units of all tiers. Returns the tiers, the one in force, and the instant of the decision: if the
  -- clock has stepped back, that of the last grant.
  local function look(state, term)
    local list, at, in_force = term.list or read(term), max(now, state.last), 1
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

  -- Returns the log of a tier after it has granted its units. A lowered limit drops the oldest ones.
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

  function tiers.spend(state, _, term)
    local list, in_force, at = look(state, term)
    local left, passed, bits, lowest = term[1], 0, 0, nil
    for i = in_force, #list do
      local tier = list[i]
      if tier.phase == COOLDOWN and not tier.is_skippable or left == 0 then
        break
      elseif tier.phase ~= COOLDOWN then
        tier.takes = min(max(tier.limit - tier.used, 0), left)
        -- A full tier is entered, too, if one above it grants something.
        left, passed, lowest = left - tier.takes, passed + 2 ^ (i - 1), lowest or tier.takes
        bits = tier.takes > 0 and passed or bits
      end
    end
    if term[1] - left < term[2] then
      return nil
    end
    local after = {last = at}
    for i = 1, #list do
      local takes = list[i].takes and 2 ^ (i - 1) <= bits
      after[i] = takes and grant(state[i] or UNTOUCHED, list[i], i, at) or state[i] or UNTOUCHED
    end
    return after, bits * 4294967296 + lowest, term[1] - left
  end

  function tiers.show(state, granted, term, reply, place)
    local list = look(state, term)
    reply[place + 1], reply[place + 2], place = granted, state.last, place + 2
    for i = 1, #list do
      local tier, log = list[i], state[i] or UNTOUCHED
      local all = tier.used > 0 and units.count(log.units) or 0
      local shown = min(term[2] + max(tier.used - tier.limit, 0), max(all - tier.first, 0))
      reply[place + 1], reply[place + 2] = log.entry, tier.used
      reply[place + 3], reply[place + 4], place = all > 0 and units.at(log.units, all - 1) or 0, shown, place + 4
      for nth = tier.first, tier.first + shown - 1 do
        place = place + 1
        reply[place] = units.at(log.units, nth)
      end
    end
    return place
  end

  -- A lowest tier that never ends decides the same, entered or not. So the value counts until its last unit has left.
  function tiers.dump(state, _, term)
    local heads, bodies, last = {}, {}, 0
    for i = 1, #state do
      local log, tier = state[i], term.list[i]
      local kept = units.count(log.units)
      heads[i], bodies[i] = pack('<dI4I4I4', log.entry, kept + log.counted, 0, kept), sub(log.units, 2)
      if log.entry >= 0 and (i > 1 or tier.active < huge) then
        last = max(last, log.entry + tier.ends)
      end
      if i == 1 and kept + log.counted > 0 then
        last = max(last, (kept > 0 and units.at(log.units, kept - 1) or log.entry) + tier.window)
      end
    end
    if #state > 0 then
      local head = 'T' .. string.char(#state) .. pack('<d', state.last)
      return head .. table.concat(heads) .. table.concat(bodies), last
    end
  end

  return tiers
end
