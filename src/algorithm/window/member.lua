-- Members of batches with windows. Their arguments: the change to make if the batch passes; the limit, the window, the
-- cost; the instant of the units to refund (-1 for the newest units) or, for `earlier`, how long ago the units were
-- taken. The changes are `spend`, `debit`, `fill` (a debit of at most as many units as there is room for), `earlier` (a
-- debit of units that were taken before now), `refund` and `keep` (no change).
-- The two reported values are the report by `window.lua`, and the number of changed units.

local by = {}

function by.terms(at)
  return at, at + 5
end

-- Loads the value, or finds out that it is large. Such a value stays on the server: the script reads only the parts that
-- it needs. If the Redis user lacks the permission to read parts, this loads the whole value.
function by.load(key, verb, at)
  local length = nil
  -- The whole value of a bucket that is reset is read, so that a broken one can be removed.
  if verb ~= 'reset' and tonumber(ARGV[at + 1]) > SMALL_WINDOW then
    length = redis.pcall('STRLEN', key)
  end
  if type(length) == 'number' and length > 1 + 8 * SMALL_WINDOW and length % 8 == 1 then
    local head = redis.pcall('GETRANGE', key, 0, 8)
    if type(head) == 'string' and string.sub(head, 1, 1) == 'W' then
      local units = units_of(nil, key, (length - 1) / 8)
      units.ends[0] = checked(struct.unpack('<d', head, 2))
      return {key = key, place = 0, text = '', units = units, is_partial = true}
    end
  end
  local text, fault = read_text(redis.pcall('GET', key), 'W')
  return {key = key, place = 0, text = text}, fault
end

-- Appends units to a large window, and keeps the value until the last unit expires.
local function keep_units(bucket, window)
  local added = string.rep(struct.pack('<d', window.at), window.units)
  local length = redis.pcall('SETRANGE', bucket.key, 1 + 8 * bucket.units.all, added)
  if type(length) == 'table' then
    return length.err
  end
  local last = window.at + window.span
  redis.call('PEXPIRE', bucket.key, ceil(last / 1000) - floor(now / 1000) + grace)
end
at_once[keep_units] = true

function by.ask(verb, bucket, at)
  local text = bucket.text
  local window, fits, seen = ask_window(bucket.units or units_of(text, nil, floor(#text / 8)), at)
  local units = math.abs(window.units)
  if verb == 'look' or verb == 'vote' or units == 0 then
    return seen, units, fits or verb == 'look'
  elseif can_append(window) then
    return seen, units, fits, keep_units, window
  end
  bucket.units = nil
  return seen, units, fits, keep_text, changed_text(window)
end

return by
