-- What all scripts of idempotency keys share. KEYS: record, index. ARGV: id, token. Times are in ms.

-- include now

local record, index = KEYS[1], KEYS[2]
local id, token = ARGV[1], ARGV[2]
local function keep(ttl)
  redis.call('PEXPIRE', record, decimal(ttl))
  redis.call('ZADD', index, decimal(now + ttl), id)
  if redis.call('PTTL', index) < ttl then redis.call('PEXPIRE', index, decimal(ttl)) end
end
