-- Returns the resources to which a session of MCP has subscribed, and renews them.
--
-- KEYS: subscriptions, the tenant's sessions by their end. ARGV: digests of owner and id, TTL.

-- include mcpsession

local uris = redis.call('SMEMBERS', KEYS[1])
if #uris > 0 then renew() end
return uris
