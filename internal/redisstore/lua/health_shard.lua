-- Returns the time, and the type and the version of a shard. Its entries are then read without Lua, which would be
-- several times slower.
--
-- KEYS: shard.

-- include health

local is = typeOf(KEYS[1])
return {decimal(now), is, is == 'hash' and redis.call('HGET', KEYS[1], 'v') or ''}
