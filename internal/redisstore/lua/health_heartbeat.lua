-- Records a heartbeat, and returns the epoch, the time, and the version of the list of live replicas. Each replica runs
-- it regularly. Unless it knows that version, its caller then reads the digests, a line of every live replica, without
-- Lua, which would dominate Redis' CPU time.
--
-- A version has the number of replicas in it, because earlier gateways do not change the version when they come and go.
--
-- KEYS: members, digests, epoch, version. ARGV: replica, digest, ms until death, a new epoch, TTL in ms.

-- include health

must(KEYS[1], 'zset') must(KEYS[2], 'hash') must(KEYS[3], 'string') must(KEYS[4], 'string')
redis.call('SET', KEYS[3], ARGV[4], 'NX')
local version = tonumber(redis.call('GET', KEYS[4]) or '')
local changed = not version
if redis.call('ZADD', KEYS[1], decimal(now), ARGV[1]) == 1 then changed = true end
if redis.call('HLEN', KEYS[2]) > redis.call('ZCARD', KEYS[1]) then redis.call('DEL', KEYS[2]) end
local before = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if string.match(before, '^%S+ %d+ (.*)$') ~= ARGV[2] then changed = true end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[1] .. ' ' .. decimal(now) .. ' ' .. ARGV[2])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. decimal(now - ARGV[3]))) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('HDEL', KEYS[2], id)
  changed = true
end
if changed then
  version = math.max(now, (version or 0) + 1) -- the time, so that none is repeated after a failover
  redis.call('SET', KEYS[4], decimal(version))
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[5]) end
return {redis.call('GET', KEYS[3]), decimal(now), decimal(version) .. ' ' .. redis.call('ZCARD', KEYS[1])}
