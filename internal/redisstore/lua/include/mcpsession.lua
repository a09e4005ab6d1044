-- renew keeps what a session of MCP has set for the TTL. isTooMany reports whether the session would be one too many of
-- its tenant, or of its owner, which has at most four times as many as are free.
--
-- KEYS: what the session has set, the tenant's sessions by their end. ARGV: digests of owner and id, TTL.

-- include now

local function renew()
  local ttl = tonumber(ARGV[2])
  redis.call('PEXPIRE', KEYS[1], decimal(ttl))
  redis.call('ZADD', KEYS[2], decimal(now + ttl), ARGV[1])
  redis.call('PEXPIRE', KEYS[2], decimal(ttl))
end
local function isTooMany(most)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', decimal(now))
  if redis.call('ZSCORE', KEYS[2], ARGV[1]) then return false end
  local count = redis.call('ZCARD', KEYS[2])
  local share = 4 * (tonumber(most) - count)
  if count < share then return false end
  local owner, own = string.match(ARGV[1], '^[^:]*:'), 0
  for _, other in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if string.sub(other, 1, #owner) == owner then own = own + 1 end
  end
  return own >= share
end
