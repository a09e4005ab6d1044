-- Sets the level of a session of MCP, and publishes that. It returns 0 if too many sessions of the tenant or of the
-- owner have one.
--
-- KEYS: level, the tenant's sessions by their end. ARGV: digests of owner and id, TTL, level, maximum of sessions,
-- channel, message.

-- include mcpsession

if isTooMany(ARGV[4]) then return 0 end
redis.call('SET', KEYS[1], ARGV[3])
renew()
redis.pcall('PUBLISH', ARGV[5], ARGV[6])
return 1
