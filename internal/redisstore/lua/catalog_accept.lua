-- Accepts one hash.
--
-- KEYS: state, changes, accepted. ARGV: epoch, channel, capability, tool, hash.

-- include catalog

redis.call('HSET', KEYS[3], ARGV[4], ARGV[5])
note(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3])
return 0
