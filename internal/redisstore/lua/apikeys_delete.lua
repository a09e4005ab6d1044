-- Deletes a key of the tenant with that uid. It returns whether the key is gone.
--
-- KEYS: record. ARGV: tenant, uid.

local f = redis.call('HMGET', KEYS[1], 'tenant', 'uid')
if f[1] and (f[1] ~= ARGV[1] or f[2] ~= ARGV[2]) then return 0 end
redis.call('DEL', KEYS[1])
return 1
