-- Releases the lease of an engine. KEYS: agent. ARGV: id.

local has = redis.call('GET', KEYS[1])
if has and string.match(has, '^%S+') == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
