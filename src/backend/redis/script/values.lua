-- What the scripts for values with a letter share. GCRA has none.

-- Returns the text of a raised error. Anything but an error of the server means that a value is broken.
local function error_of(raised)
  if type(raised) == 'table' then
    return string.find(raised.err, 'WRONGTYPE', 1, true) and BROKEN_TYPE or raised.err
  elseif string.find(raised, '%-%u%u%u') then
    return 'ERR ' .. raised
  end
  return BROKEN_VALUE
end

-- Reads the value of a bucket with another algorithm, which begins with the algorithm's letter. Returns the value, which is
-- empty if there is no bucket, and an error.
local function read_text(stored, letter)
  if not stored then
    return ''
  elseif type(stored) == 'table' then
    return '', fault_of_answer(stored)
  elseif string.sub(stored, 1, 1) == letter then
    return stored
  end
  return '', BROKEN_VALUE
end

