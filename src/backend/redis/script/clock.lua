-- The time in microseconds: the client's, or the server's if that is -1. Under a client's, which says nothing about the
-- server's, keys live ten minutes longer. Times stay below 2^53, up to which Lua's numbers are exact.
local now, grace = tonumber(ARGV[1]), 600000
if now < 0 then
  local time = redis.call('TIME')
  now, grace = time[1] * 1000000 + time[2], 0
end
if now >= 4503599627370496 then
  return {0, now}
end

