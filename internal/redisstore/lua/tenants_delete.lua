-- Deletes a tenant that tenants_close.lua has switched off. It returns the uid, or the errors of tenants_update.lua.
--
-- KEYS: record, keys. ARGV: version or "", uid.

local f = redis.call('HMGET', KEYS[1], 'version', 'uid', 'disabled')
if not f[1] then return -1 end
if ARGV[1] ~= '' and f[1] ~= ARGV[1] or f[2] ~= ARGV[2] or f[3] ~= 'true' then return -2 end
redis.call('DEL', KEYS[1])
return f[2]
