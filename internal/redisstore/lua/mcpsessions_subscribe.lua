-- Adds a resource to a session of MCP, and publishes that. It returns 0 if the session or the tenant has too many.
--
-- KEYS: subscriptions, the tenant's sessions by their end. ARGV: digest of the id, TTL, URI, maximum of URIs and of
-- their bytes, maximum of sessions, channel, message.

-- include now

local ttl = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', decimal(now))
if redis.call('SISMEMBER', KEYS[1], ARGV[3]) == 0 then
	local uris, bytes = redis.call('SMEMBERS', KEYS[1]), #ARGV[3]
	for _, uri in ipairs(uris) do bytes = bytes + #uri end
	if #uris >= tonumber(ARGV[4]) or bytes > tonumber(ARGV[5]) then return 0 end
	if not redis.call('ZSCORE', KEYS[2], ARGV[1]) and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[6]) then return 0 end
	redis.call('SADD', KEYS[1], ARGV[3])
end
redis.call('PEXPIRE', KEYS[1], decimal(ttl))
redis.call('ZADD', KEYS[2], decimal(now + ttl), ARGV[1])
redis.call('PEXPIRE', KEYS[2], decimal(ttl))
redis.pcall('PUBLISH', ARGV[7], ARGV[8])
return 1
