-- renew keeps what a session of MCP has set for the TTL. isTooMany reports whether the session would be one too many of
-- its tenant.
--
-- KEYS: what the session has set, the tenant's sessions by their end. ARGV: digest of the id, TTL.

-- include now

local function renew()
  local ttl = tonumber(ARGV[2])
  redis.call('PEXPIRE', KEYS[1], decimal(ttl))
  redis.call('ZADD', KEYS[2], decimal(now + ttl), ARGV[1])
  redis.call('PEXPIRE', KEYS[2], decimal(ttl))
end
local function isTooMany(most)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', decimal(now))
  return not redis.call('ZSCORE', KEYS[2], ARGV[1]) and redis.call('ZCARD', KEYS[2]) >= tonumber(most)
end
