-- Creates a tenant. It returns the time, or 0 if the tenant exists.
--
-- KEYS: record. ARGV: fields and values.

-- include now

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'created', decimal(now), 'updated', decimal(now), 'version', 1, unpack(ARGV))
return now
