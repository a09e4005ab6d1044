-- Adds a key to its tenant's list. It returns 1, -1 if that tenant does not exist or is another one, or -2 if it has
-- too many keys.
--
-- KEYS: record, keys. ARGV: id, the tenant's uid ("": a tenant of the file), maximum.

if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'uid') ~= ARGV[2] then return -1 end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) then return -2 end
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
