-- Returns the level of a session of MCP, and renews it. Empty means none.
--
-- KEYS: level, the tenant's sessions by their end. ARGV: digests of owner and id, TTL.

-- include mcpsession

local level = redis.call('GET', KEYS[1])
if not level then return '' end
renew()
return level
