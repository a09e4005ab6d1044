-- Gives the right to refresh the token of a version of a login to one id for a time. It returns 1 if id has it, 0 if
-- another one has it, and -1 if another version is stored.
--
-- KEYS: login, lease. ARGV: version, id, time in ms.

if ARGV[1] ~= redis.call('HGET', KEYS[1], 'version') then return -1 end
return redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) and 1 or 0
