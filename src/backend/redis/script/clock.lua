-- The time in microseconds: the client's, or the server's if that is -1. Under a client's, which says nothing about the
-- server's, keys live ten minutes longer. Times stay below 2^53, up to which Lua's numbers are exact.
local now, grace, servers_time = 0, 0, nil

-- Sets both, unless the time is out of range.
local function set_clock(text)
  now, grace = tonumber(text), 600000
  if now < 0 then
    if not servers_time then
      -- Read once: all batches of a call are decided at the same instant.
      local time = redis.call('TIME')
      servers_time = time[1] * 1000000 + time[2]
    end
    now, grace = servers_time, 0
  end
  return now < 4503599627370496
end

