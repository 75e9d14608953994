-- Members of batches with quotas. Their arguments: the quota, the cost, the period as two arguments; the start of the
-- period that a refund gives back to (-1 for any period).
-- The two reported values are the start of the period and the used amount, as stored before.

local by = {}

function by.terms(at)
  return at, at + 5
end

function by.load(key)
  local text, fault = read_text(redis.pcall('GET', key), 'Q')
  return {key = key, place = 0, text = text}, fault
end

function by.ask(verb, bucket, at)
  local start, used, fault = read_quota(bucket.text)
  if fault then
    error(fault, 0)
  end
  local fits, new_start, new_used, ends = use(verb, start, used, at)
  if not new_start or verb == 'vote' then
    return start, used, fits
  elseif new_used == 0 then
    return start, used, true, keep_text, '', 0
  end
  return start, used, true, keep_text, format('Q%.0f:%.0f', new_start, new_used), ends
end

return by
