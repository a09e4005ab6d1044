-- Returns the resources to which a session of MCP has subscribed, and renews them.
--
-- KEYS: subscriptions, the tenant's sessions by their end. ARGV: digest of the id, TTL.

-- include now

local uris = redis.call('SMEMBERS', KEYS[1])
if #uris == 0 then return uris end
local ttl = tonumber(ARGV[2])
redis.call('PEXPIRE', KEYS[1], decimal(ttl))
redis.call('ZADD', KEYS[2], decimal(now + ttl), ARGV[1])
redis.call('PEXPIRE', KEYS[2], decimal(ttl))
return uris
