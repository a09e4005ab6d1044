-- Revokes a key. It returns 1, also for a revoked key, or -1 if there is no such key.
--
-- KEYS: record. ARGV: tenant, ms until the deletion.

-- include now

local f = redis.call('HMGET', KEYS[1], 'tenant', 'revoked')
if f[1] ~= ARGV[1] then return -1 end
if not f[2] then
  redis.call('HSET', KEYS[1], 'revoked', decimal(now))
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
