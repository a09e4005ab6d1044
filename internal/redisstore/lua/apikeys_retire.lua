-- Ends a key that another one replaces. It returns 1, -1 if there is no such key, -2 if it has ended, or -3 if another
-- key replaces it.
--
-- KEYS: record. ARGV: tenant, id of the other key, ms until the end, ms from the end to the deletion.

-- include now

local f = redis.call('HMGET', KEYS[1], 'tenant', 'revoked', 'expires', 'to')
if f[1] ~= ARGV[1] then return -1 end
if f[2] or f[3] and tonumber(f[3]) <= now then return -2 end
if f[4] then return -3 end
local ends = now + ARGV[3]
redis.call('HSET', KEYS[1], 'to', ARGV[2], 'ends', decimal(ends), 'retired', decimal(now))
redis.call('PEXPIREAT', KEYS[1], decimal(ends + ARGV[4]))
return 1
