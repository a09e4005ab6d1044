-- Returns the level of a session of MCP, and renews it. Empty means none.
--
-- KEYS: level, the tenant's sessions by their end. ARGV: digest of the id, TTL.

-- include now

local level = redis.call('GET', KEYS[1])
if not level then return '' end
local ttl = tonumber(ARGV[2])
redis.call('PEXPIRE', KEYS[1], decimal(ttl))
redis.call('ZADD', KEYS[2], decimal(now + ttl), ARGV[1])
redis.call('PEXPIRE', KEYS[2], decimal(ttl))
return level
