-- Stores what the server of a fleet requires of the next login. It deletes what is stored for another bond.
--
-- KEYS: login. ARGV: bond, challenge.

if redis.call('HGET', KEYS[1], 'bond') ~= ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'bond', ARGV[1], 'challenge', ARGV[2])
return 1
