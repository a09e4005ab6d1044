-- Adds a resource to a session of MCP, and publishes that. It returns 0 if the session, the tenant or the owner has too
-- many.
--
-- KEYS: subscriptions, the tenant's sessions by their end. ARGV: digests of owner and id, TTL, URI, maximum of URIs and
-- of their bytes, maximum of sessions, channel, message.

-- include mcpsession

if redis.call('SISMEMBER', KEYS[1], ARGV[3]) == 0 then
  local uris, bytes = redis.call('SMEMBERS', KEYS[1]), #ARGV[3]
  for _, uri in ipairs(uris) do bytes = bytes + #uri end
  if #uris >= tonumber(ARGV[4]) or bytes > tonumber(ARGV[5]) or isTooMany(ARGV[6]) then return 0 end
  redis.call('SADD', KEYS[1], ARGV[3])
end
renew()
redis.pcall('PUBLISH', ARGV[7], ARGV[8])
return 1
