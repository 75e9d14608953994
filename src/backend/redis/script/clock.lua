-- The time in microseconds: the client's, or the server's if the client sends -1. A client's clock may differ from the
-- server's, so keys that are written under a client's clock live ten minutes longer (`grace`, in milliseconds). Times
-- stay below 2^53, the limit up to which Lua's numbers are exact.
local now, grace, servers_time = 0, 0, 0

-- Sets `now` and `grace`. Returns whether the time is in range.
local function set_clock(text)
  now, grace = tonumber(text), 600000
  if now < 0 then
    if servers_time == 0 then
      -- Read the server's clock once: all batches of a call are decided at the same instant.
      local time = redis.call('TIME')
      servers_time = time[1] * 1000000 + time[2]
    end
    now, grace = servers_time, 0
  end
  return now < 4503599627370496
end

