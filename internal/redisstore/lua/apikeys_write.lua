-- Writes a new key. It returns the time, or 0 if the key exists.
--
-- KEYS: record. ARGV: time of its expiry in ms or "", fields and values.

-- include now

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'created', decimal(now), unpack(ARGV, 2))
if ARGV[1] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[1]) end
return now
