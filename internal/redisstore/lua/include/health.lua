-- Begins the scripts below: the time in ms, and the deletion of keys of a wrong type.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function whole(n) return string.format('%.0f', n) end
local function must(key, kind)
  local is = redis.call('TYPE', key)
  is = type(is) == 'table' and is.ok or is
  if is ~= kind and is ~= 'none' then redis.call('DEL', key) end
end
