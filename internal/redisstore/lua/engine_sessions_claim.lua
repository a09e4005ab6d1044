-- Makes a tenant the owner of a session that has none, and returns the owner. ARGV: tenant, TTL in ms.

local owner = redis.call('GET', KEYS[1])
if not owner then redis.call('SET', KEYS[1], ARGV[1]) end
if not owner or owner == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {owner or ARGV[1], owner and 0 or 1}
