-- Members of batches with concurrency limits: those of `windows`, with the same arguments and values, and the verb `renew`,
-- which moves permits of the instant of a receipt to now. Their change is `keep`, because it depends on nothing else.

local by = {terms = windows.terms}

-- Loads the whole value for a renewal, which does not append. A value that is broken has no permits: it must not fail the
-- other renewals of the batch, which may have changed their buckets already.
function by.load(key, verb, at)
  if verb ~= 'renew' then
    return windows.load(key, verb, at)
  end
  local text, fault = read_text(redis.pcall('GET', key), 'W')
  if fault == BROKEN_VALUE or fault == BROKEN_TYPE or not fault and not read_units(text) then
    return {key = key, place = 0, text = '', is_partial = true}
  end
  return {key = key, place = 0, text = text}, fault
end

function by.ask(verb, bucket, at)
  if verb ~= 'renew' then
    return windows.ask(verb, bucket, at)
  end
  local text, cost, named = bucket.text, tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local window, _, seen = ask_window(units_of(text, nil, floor(#text / 8)), at)
  if cost == 0 or window.until_named - window.until_before < cost then
    return seen, 0, true
  end
  local from = 2 + 8 * window.first
  local moved = from + 8 * (window.until_named - cost)
  local rest = string.sub(text, from, moved - 1) .. string.sub(text, moved + 8 * cost)
  -- The permits themselves are no longer before the place to which they move.
  local to = 8 * (window.until_now - (named <= now and cost or 0))
  local added = string.rep(struct.pack('<d', now), cost)
  text = 'W' .. string.sub(rest, 1, to) .. added .. string.sub(rest, to + 1)
  -- At once, because the next renewal of the batch can be of the same bucket.
  keep_text(bucket, text, struct.unpack('<d', text, #text - 7) + window.span)
  return seen, cost, true
end

return by
