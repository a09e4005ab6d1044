-- Adds keys, the newest first, and drops the oldest.
--
-- KEYS: recent. ARGV: maximum, TTL in ms, keys.

-- include now

for i = 3, #ARGV do redis.call('ZADD', KEYS[1], now - (i - 3) / #ARGV, ARGV[i]) end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
