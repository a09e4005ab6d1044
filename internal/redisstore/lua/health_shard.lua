-- Returns the time, the type and the version of a shard, and the ms after which its version is to be read again, which
-- publishes changes that wait; 0 if none do. Its entries are then read without Lua, which would be several times
-- slower.
--
-- KEYS: page, changes that wait, paid. ARGV: channel, the beginning of the event, live replicas, and "all" to publish
-- all changes that wait.

-- include health_notices

local is, wait = typeOf(KEYS[1]), 0
local version = is == 'hash' and redis.call('HGET', KEYS[1], 'v') or ''
if tonumber(version) and typeOf(KEYS[2]) == 'set' then
  must(KEYS[3], 'string')
  wait = notify(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], false, ARGV[4] == 'all')
  version = redis.call('HGET', KEYS[1], 'v')
end
return {decimal(now), is, version, decimal(wait)}
