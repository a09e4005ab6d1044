-- Begins all scripts of idempotency keys. KEYS: record, index. ARGV: id, token. Times are in ms.

local record, index = KEYS[1], KEYS[2]
local id, token = ARGV[1], ARGV[2]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function text(n) return string.format('%.0f', n) end
local function keep(ttl)
  redis.call('PEXPIRE', record, text(ttl))
  redis.call('ZADD', index, text(now + ttl), id)
  if redis.call('PTTL', index) < ttl then redis.call('PEXPIRE', index, text(ttl)) end
end
