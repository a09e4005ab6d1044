-- Switches off a tenant that is to be deleted. It returns the uid, the errors of tenants_update.lua, or -3 if the
-- tenant has keys. The version stays, so that a failed deletion can be repeated with it.
--
-- KEYS: record, keys. ARGV: version or "", 1 to accept keys.

local version = redis.call('HGET', KEYS[1], 'version')
if not version then return -1 end
if ARGV[1] ~= '' and version ~= ARGV[1] then return -2 end
if ARGV[2] ~= '1' and redis.call('ZCARD', KEYS[2]) > 0 then return -3 end
redis.call('HSET', KEYS[1], 'disabled', 'true')
return redis.call('HGET', KEYS[1], 'uid')
