-- Stores the login of a fleet, and publishes that. It returns 0 if another one is stored than the expected one.
--
-- KEYS: login, lease. ARGV: channel, fleet, bond, version, value, challenge, the expected version or "", the lease that
-- ends or "" for any.

if ARGV[7] ~= '' and ARGV[7] ~= redis.call('HGET', KEYS[1], 'version') then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'bond', ARGV[3], 'version', ARGV[4], 'value', ARGV[5], 'challenged', ARGV[3], 'challenge',
  ARGV[6])
if ARGV[8] == '' or ARGV[8] == redis.call('GET', KEYS[2]) then redis.call('DEL', KEYS[2]) end
redis.pcall('PUBLISH', ARGV[1], ARGV[2])
return 1
