-- Begins a script that needs Redis' clock, in ms.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function text(ms) return string.format('%.0f', ms) end
