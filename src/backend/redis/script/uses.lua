-- Spends from quotas and small windows for many callers. Decides each spend separately, as `spends.lua` does for GCRA.
-- Loads and writes each bucket once, however many spends it has.
--
-- KEYS: the bucket of each run of equal spends. The runs of one bucket are adjacent, in the order of the calls.
-- ARGV: as in `spends.lua`, but a kind is four arguments: the limit, the cost, and either the two arguments of a
-- quota's period, or the window and `W`.
-- Answers the time, and three values for each bucket, in an array: the number of spends that fit; and for a quota the
-- start of the period and the used amount as stored before, for a window the instants of all units and 0. If a bucket
-- cannot be read, the answer only has the text of the error. If it cannot be written, the text replaces the number.

if not set_clock(ARGV[1]) then
  return {now}
end

local pcall, ceil, floor, format, sub, match = redis.pcall, math.ceil, math.floor, string.format, string.sub, string.match
-- `%d` takes a third of the time of `%.0f`, but only works if C's integer type is wide enough for the time.
local whole = format('%d', now) == format('%.0f', now) and '%d' or '%.0f'

local kinds = tonumber(ARGV[6] or 1)
local runs = 2 + 4 * kinds
local are_alike = ARGV[runs + 1] == nil
local limit, cost, length, shift, fresh, fresh_ends
local one_unit = struct.pack('<d', now)
-- The start of the value of a quota in its current period, the length of this text, the lifetime of the value, and the
-- period's start that the text is for. They are kept between runs: most buckets of a call share a period.
local prefix, prefix_length, fresh_ttl, prefixed

-- Returns the lifetime in milliseconds of a bucket that can be forgotten at `ends`.
local function ttl(ends)
  return format(whole, ceil(ends / 1000) - floor(now / 1000) + grace)
end

-- Sets the kind of spend and, for a quota, its current period.
local function set_kind(kind)
  local terms = kind == 0 and 2 or 3 + 4 * kind
  limit, cost, length = tonumber(ARGV[terms]), tonumber(ARGV[terms + 1]), tonumber(ARGV[terms + 2])
  shift = ARGV[terms + 3] or '0'
  if shift ~= 'W' then
    fresh, fresh_ends = period(now, length, shift)
    if fresh ~= prefixed then
      prefix, prefixed = 'Q' .. format(whole, fresh) .. ':', fresh
      prefix_length = #prefix
    end
    fresh_ttl = ttl(fresh_ends)
  end
end

-- Returns the end of the period with a stored start.
local function ends_of(start)
  if start == fresh then
    return fresh_ends
  end
  local _, ends = period(start, length, shift)
  return ends
end

-- Returns the units that have not expired.
local function live(part)
  local first = 1
  while first < #part and struct.unpack('<d', part, first) + length <= now do
    first = first + 8
  end
  return first > 1 and sub(part, first) or part
end

-- Adds units after all units that were taken at or before now. Only a clock that has stepped back leaves later units.
local function take(part)
  local all = #part / 8
  local added = cost == 1 and one_unit or string.rep(one_unit, cost)
  if all == 0 or struct.unpack('<d', part, 8 * all - 7) <= now then
    return part .. added
  end
  local until_now = all
  while until_now > 0 and struct.unpack('<d', part, 8 * until_now - 7) > now do
    until_now = until_now - 1
  end
  return sub(part, 1, 8 * until_now) .. added .. sub(part, 8 * until_now + 1)
end

if are_alike then
  set_kind(0)
end
local reply, at, nth, key = {now}, 2, 1, KEYS[1]
while key do
  local bucket, passed, is_loaded, text, fault, first, second = key, 0, false, '', nil, 0, 0
  local start, used, ends, part, counting, counted = 0, 0, 0, '', '', nil
  repeat
    local more = 0
    if not are_alike then
      local run = tonumber(ARGV[runs + nth] or 0)
      set_kind(run % kinds)
      more = floor(run / kinds)
    end
    if not is_loaded then
      is_loaded = true
      local stored = pcall('GET', bucket)
      if shift == 'W' then
        text, fault = read_text(stored, 'W')
        part = sub(text, 2)
        if not fault then
          first, fault = read_units(text)
        end
        if fault then
          first, part = {}, ''
        end
      else
        if type(stored) == 'string' and sub(stored, 1, prefix_length) == prefix then
          -- Almost always, the value is of the current period. Comparing its first characters is faster than a pattern.
          start, used = fresh, tonumber(match(stored, '^%d+$', prefix_length + 1))
          if not used or used > 4294967295 then
            used, fault = 0, BROKEN_VALUE
          end
        elseif stored then
          text, fault = read_text(stored, 'Q')
          if not fault then
            start, used, fault = read_quota(text)
          end
        end
        first, second = start, used
      end
    end
    for _ = 0, more do
      if shift == 'W' then
        if counted ~= length then
          counting, counted = live(part), length
        end
        if #counting / 8 + cost > limit then
          break
        end
        counting, passed = take(counting), passed + 1
        part = counting
        ends = struct.unpack('<d', part, #part - 7) + length
      else
        local its_end = used > 0 and ends_of(start) or 0
        local counts = now < its_end and used or 0
        if counts + cost > limit then
          break
        elseif counts == 0 then
          start, its_end = fresh, fresh_ends
        end
        used, ends, passed = counts + cost, its_end, passed + 1
      end
    end
    nth = nth + 1
    key = KEYS[nth]
  until key ~= bucket
  if not fault and passed > 0 then
    local value = 'W' .. part
    if shift ~= 'W' then
      value = start == fresh and prefix .. format(whole, used) or format('Q%.0f:%.0f', start, used)
    end
    passed = pcall('SET', bucket, value, 'PX', ends == fresh_ends and fresh_ttl or ttl(ends)).err or passed
  end
  reply[at], at = fault and {fault} or {passed, first, second}, at + 1
end
return reply
