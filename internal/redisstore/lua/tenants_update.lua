-- Updates a tenant. It returns the time, -1 if there is no such tenant, or -2 if it has another version.
--
-- KEYS: record. ARGV: version, fields and values.

-- include now

local version = redis.call('HGET', KEYS[1], 'version')
if not version then return -1 end
if version ~= ARGV[1] then return -2 end
redis.call('HSET', KEYS[1], 'updated', decimal(now), 'version', version + 1, unpack(ARGV, 2))
return now
