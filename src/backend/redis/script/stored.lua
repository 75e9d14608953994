-- Reads the value of a GCRA bucket that is not a plain number. Returns `us`, `frac` and an error. The value is `us:frac`,
-- or one that this crate has not written, which is an error.
local function parse(stored)
  if type(stored) == 'table' then
    return 0, 0, stored.err
  end
  local us, frac = string.match(stored, '^(%d+):(%d+)$')
  if us then
    return tonumber(us), tonumber(frac)
  end
  return 0, 0, 'ERR not a bucket'
end

-- Reads the value of a bucket with another algorithm, which begins with the algorithm's letter. Returns the value, which is
-- empty if there is no bucket, and an error.
local function read_text(stored, letter)
  if not stored then
    return ''
  elseif type(stored) == 'table' then
    return '', stored.err
  elseif string.sub(stored, 1, 1) == letter then
    return stored
  end
  return '', 'ERR not a bucket'
end

