-- Reads a value that is no plain number: `us:frac`, the text of a bucket with another algorithm, which is full for this
-- one, or what is none of ours.
local function parse(stored)
  if type(stored) == 'table' then
    return 0, 0, stored.err
  end
  local us, frac = string.match(stored, '^(%d+):(%d+)$')
  if us then
    return tonumber(us), tonumber(frac), nil, ''
  elseif string.find(stored, '^[TWQ]') then
    return 0, 0, nil, stored
  end
  return 0, 0, 'ERR not a bucket'
end

