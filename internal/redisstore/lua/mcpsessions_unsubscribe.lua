-- Removes a resource from a session of MCP, and publishes that.
--
-- KEYS: subscriptions, the tenant's sessions by their end. ARGV: digests of owner and id, URI, channel, message.

redis.call('SREM', KEYS[1], ARGV[2])
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[2], ARGV[1]) end
redis.pcall('PUBLISH', ARGV[3], ARGV[4])
return 1
