-- micros and now are the time since 1970 by Redis' clock, in µs and in ms. decimal returns all digits of a whole
-- number; tostring rounds to fourteen.

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local function decimal(n) return string.format('%.0f', n) end
