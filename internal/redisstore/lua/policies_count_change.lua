-- Counts a change, and returns its version. The first one begins an epoch.
--
-- KEYS: version, epoch. ARGV: an epoch.

redis.call('SETNX', KEYS[2], ARGV[1])
return redis.call('INCR', KEYS[1])
