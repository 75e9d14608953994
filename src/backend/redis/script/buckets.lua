-- The buckets of batches. Precedes the algorithms, and `batch.lua`.
--
-- Nothing is written before all batches are decided, because Redis does not roll back a script that fails half-way.
-- Large values are the exception: see `at_once`.

local ARGV, floor, ceil, format = ARGV, math.floor, math.ceil, string.format
-- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough for the time.
local whole = format('%d', END) == format('%.0f', END) and '%d' or '%.0f'

-- The loaded buckets by key. A bucket has its key, its place among the changed ones or 0, and the fields of its algorithm.
local buckets = {}
-- The buckets to write and, for each of them, the function that returns its value and the lifetime in milliseconds; the
-- number of these buckets.
local changed, values, lifetimes, writes = {}, {}, {}, 0
-- The functions that write a large value immediately, in place. All other changes wait for `write`.
local at_once = {}
-- By letter, a function that returns an algorithm. Creating its functions takes time, so this waits until a batch needs
-- them. An algorithm has three functions:
--   `terms` reads the arguments of a member, which begin at a place, and returns their form and the next place.
--   `load` returns a bucket, and its fault if the value cannot be read. Only one member sees a bucket that `is_partial`.
--   `ask` returns the two reported values, whether the request fits and, if the bucket changes, a function that makes the
--     change and its arguments.
local algorithms = {}

-- Changes a bucket, which `write` stores at the end. A bucket whose value is empty is removed.
local function change(bucket, value, lifetime)
  local place = bucket.place
  if place == 0 then
    place = writes + 1
    writes, bucket.place, changed[place] = place, place, bucket
    buckets[bucket.key] = bucket
  end
  values[place], lifetimes[place] = value, lifetime
end

local function text_of(bucket)
  return bucket.text
end

-- Keeps a text until `last`.
local function keep_text(bucket, text, last)
  bucket.text = text
  change(bucket, text_of, ceil(last / 1000) - floor(now / 1000) + grace)
end
