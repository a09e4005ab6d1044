-- Sets the level of a session of MCP, and publishes that. It returns 0 if too many sessions of the tenant have one.
--
-- KEYS: level, the tenant's sessions by their end. ARGV: digest of the id, TTL, level, maximum of sessions, channel,
-- message.

-- include now

local ttl = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', decimal(now))
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', decimal(ttl))
redis.call('ZADD', KEYS[2], decimal(now + ttl), ARGV[1])
redis.call('PEXPIRE', KEYS[2], decimal(ttl))
redis.pcall('PUBLISH', ARGV[5], ARGV[6])
return 1
