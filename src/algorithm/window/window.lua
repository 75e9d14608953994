-- Windows, and the permits of concurrency limits.
--
-- A value is `W` and the instant at which each unit was taken, in ascending order. Times are doubles, which hold them
-- exactly. Expired units may come first.
-- The arguments: the change to make; the limit, the window, the cost; and for `earlier`, how long ago the units were taken.
-- The changes are `spend`, `debit`, `fill` (a debit of at most as many units as there is room for), `earlier` (a debit of
-- units that were taken before now), `refund` of the newest units, `undo` and `keep` (no change). The mark of `undo` is the
-- instant of the units.
-- The state is the value and the number of its units. A large value stays on the server. Its state is a table: the key, the
-- parts that have been read, and the units to append.

local pack, unpack, rep = struct.pack, struct.unpack, string.rep

local MOST_UNITS = 4096
-- A value of a limit above this stays on the server if it has more units: the script reads the parts that it needs, and
-- appends new units.
local SMALL_WINDOW = 64
-- The number of units to read at once when a search has narrowed down to them.
local BLOCK = 256

local function checked(at)
  if not (at >= 0 and at < END and at % 1 == 0) then
    error(BROKEN_VALUE, 0)
  end
  return at
end

-- Loads a value, or finds out that it is large. If the Redis user lacks the permission to read parts, this loads the
-- whole value.
local function load(key, member)
  if member.limit > SMALL_WINDOW then
    local length = redis.pcall('STRLEN', key)
    if type(length) == 'number' and length > 1 + 8 * SMALL_WINDOW and length % 8 == 1 then
      local head = redis.pcall('GETRANGE', key, 0, 8)
      if type(head) == 'string' and sub(head, 1, 1) == 'W' then
        return false, {checked(unpack('<d', head, 2)), key = key, from = 0, to = 0, block = ''}, (length - 1) / 8
      end
    end
  end
  local stored, text = load_text(key, 'W')
  if stored and #text % 8 ~= 1 then
    error(BROKEN_VALUE, 0)
  end
  return stored, text, floor(#text / 8)
end

-- The formats of values, by the number of units.
local formats = {}

-- Returns the units of a value as a table.
local function read_units(text, all)
  if all == 0 then
    return nil
  elseif all > BLOCK then
    return {text = text}
  end
  formats[all] = formats[all] or '<' .. rep('d', all)
  local units, last = {unpack(formats[all], text, 2)}, 0
  for nth = 1, all do
    local at = units[nth]
    if not (at >= last and at < END and at % 1 == 0) then
      error(BROKEN_VALUE, 0)
    end
    last = at
  end
  return units
end

-- Returns the instant at which a unit was taken. The oldest unit is number 0.
local function taken(units, nth)
  local at = units[nth + 1]
  if not at then
    if units.text then
      at = unpack('<d', units.text, 2 + 8 * nth)
    elseif nth >= units.from and nth < units.to then
      at = unpack('<d', units.block, 1 + 8 * (nth - units.from))
    else
      at = unpack('<d', call('GETRANGE', units.key, 1 + 8 * nth, 8 + 8 * nth))
    end
    units[nth + 1] = checked(at)
  end
  return at
end

-- Counts the units from number `low` on that were taken at or before an instant.
local function count_until(units, low, high, instant)
  -- Usually all units were, because no unit is newer than now unless the clock has stepped back.
  if high <= low or taken(units, high - 1) <= instant then
    return high - low
  end
  local first = low
  while low < high do
    if units.key and high - low <= BLOCK and (low < units.from or high > units.to) then
      units.from, units.to = low, high
      units.block = call('GETRANGE', units.key, 1 + 8 * low, 8 * high)
    end
    local middle = floor((low + high) / 2)
    if taken(units, middle) <= instant then
      low = middle + 1
    else
      high = middle
    end
  end
  return low - first
end

-- Returns the change that a request makes, or nil if the request does not fit: the number of counting units before the
-- change, and the number of units to add there or, if negative, to remove there. The new units are taken `at` an instant.
local function change_units(member, used, until_now, until_named, until_before, at)
  local how, cost = member.how, member.cost
  if how == 'spend' and used + cost <= member.limit or how == 'debit' and used + cost <= MOST_UNITS then
    return until_now, cost
  elseif how == 'undo' then
    local units = math.min(cost, until_named - until_before)
    return until_named - units, -units
  elseif how == 'refund' then
    local units = math.min(cost, used)
    return used - units, -units
  elseif how == 'fill' then
    return until_now, math.min(cost, math.max(MOST_UNITS - used, 0))
  elseif how == 'earlier' then
    local counts = at + member.span > now
    return until_named, counts and math.min(cost, math.max(MOST_UNITS - used, 0)) or 0
  elseif how == 'keep' then
    return 0, 0
  end
end

-- Reports the units on which the figures depend, once `added` units are added after the first `after` ones. Each is a
-- number and an instant. At most three are for the state before the change, and three for the state after it.
local function report_units(report, member, units, gone, all, after, added)
  local used = all - gone + added
  local over = math.max(used - member.limit, 0)
  for _, nth in ipairs({used + member.cost - member.limit - 1, used - 1, over}) do
    if nth >= 0 and nth < used then
      if added < 0 and nth >= after or added > 0 and nth >= after + added then
        nth = nth - added
      elseif added > 0 and nth >= after then
        nth = -1
      end
      if nth >= 0 then
        report[#report + 1], report[#report + 2] = nth, taken(units, gone + nth)
      end
    end
  end
end

-- The last instant that was written, and its bytes.
local packed, packed_at = '', -1

-- Returns the bytes of units.
local function pack_units(at, count)
  if at ~= packed_at then
    packed, packed_at = pack('<d', at), at
  end
  return count == 1 and packed or rep(packed, count)
end

-- Returns a value without its expired units, in which units are added after the first `after` ones or removed there.
-- Returns the number of its units as well.
local function changed(text, gone, all, after, at, added)
  if added > 0 and after == all then
    -- The new units are the newest ones, as almost always.
    return (all == 0 and 'W' or text) .. pack_units(at, added), all + added
  end
  local from = 2 + 8 * gone
  local middle = from + 8 * after
  if added > 0 then
    text = 'W' .. sub(text, from, middle - 1) .. pack_units(at, added) .. sub(text, middle)
  else
    text = 'W' .. sub(text, from, middle - 1) .. sub(text, middle - 8 * added)
  end
  return text, all - gone + added
end

-- Decides a request. The report has the number of counting units; the numbers of those that were taken by now, by the
-- instant of the mark or of an earlier debit, and before that instant; and then a few units.
local function ask(state, all, member, marks)
  local is_large, units, at, named, how = type(state) == 'table', state, now, nil, member.how
  if not is_large then
    units = read_units(state, all)
  end
  if how == 'undo' then
    named = tonumber(ARGV[marks + member.mark] or 0)
  elseif how == 'earlier' then
    at = math.max(now - member.ago, 0)
    named = at
  end
  -- Expired units are skipped here, and removed by a later change. A denial writes nothing.
  local gone, until_named, until_before = 0, 0, 0
  if all > 0 and taken(units, 0) + member.span <= now then
    gone = count_until(units, 0, all, now - member.span)
  end
  local used, until_now = all - gone, count_until(units, gone, all, now)
  if named then
    until_named = count_until(units, gone, all, named)
    until_before = count_until(units, gone, all, named - 1)
  end
  local after, added = change_units(member, used, until_now, until_named, until_before, at)
  local report, count = nil, nil
  if is_large then
    report, count = {used, until_now, until_named, until_before}, math.abs(added or 0)
    report_units(report, member, units, gone, all, 0, 0)
    if count > 0 then
      report_units(report, member, units, gone, all, after, added)
    end
  end
  if not added then
    return nil, all, count, report
  elseif added == 0 then
    return state, all, count, report
  elseif is_large and added > 0 and after == used and gone <= math.max(used, SMALL_WINDOW) then
    -- A value that has mostly expired is rewritten instead.
    return {key = units.key, append = pack_units(at, added), last = at}, all + added, count, report
  elseif is_large then
    state = call('GET', units.key)
  end
  local text, left = changed(state, gone, all, after, at, added)
  return text, left, count, report
end

-- Gives back the units of the mark, if they are still there.
local function undo(state, all, member, marks)
  if all == 1 and member.cost > 0 and state == 'W' .. pack_units(tonumber(ARGV[marks + member.mark] or 0), 1) then
    -- There are no other units, as in most buckets of concurrency limits.
    return '', 0
  end
  return ask(state, all, member, marks)
end

-- Keeps a window until its last unit expires.
local function keep(key, state, all, member)
  if type(state) == 'table' then
    call('SETRANGE', key, 1 + 8 * all - #state.append, state.append)
    call('PEXPIRE', key, ttl(state.last + member.span))
  elseif all == 0 then
    call('DEL', key)
  else
    call('SET', key, state, 'PX', ttl(unpack('<d', state, 8 * all - 6) + member.span))
  end
end

local function read(at, verb)
  return {
    load = load, ask = verb == 'undo' and undo or ask, keep = keep, how = ARGV[at], limit = tonumber(ARGV[at + 1]), span = tonumber(ARGV[at + 2]),
    cost = tonumber(ARGV[at + 3]), ago = tonumber(ARGV[at + 4]), reports = true, mark = 0, taken = nil, report = nil,
    votes = true, is_marked = false, seen = false, state = '', other = 0, changes = false,
  }, at + 5
end
