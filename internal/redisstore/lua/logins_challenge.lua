-- Stores what the server of a fleet requires of the next login, for a bond. A login for another bond remains.
--
-- KEYS: login. ARGV: bond, challenge.

redis.call('HSET', KEYS[1], 'challenged', ARGV[1], 'challenge', ARGV[2])
return 1
