-- Records a heartbeat, and returns the epoch and the time. Each replica runs it regularly. Its caller then reads
-- the digests, a line of every live replica, without Lua, which would dominate Redis' CPU time.
--
-- KEYS: members, digests, epoch. ARGV: replica, digest, ms until death, a new epoch, TTL in ms.

-- include health

must(KEYS[1], 'zset') must(KEYS[2], 'hash') must(KEYS[3], 'string')
redis.call('SET', KEYS[3], ARGV[4], 'NX')
redis.call('ZADD', KEYS[1], decimal(now), ARGV[1])
if redis.call('HLEN', KEYS[2]) > redis.call('ZCARD', KEYS[1]) then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[1] .. ' ' .. decimal(now) .. ' ' .. ARGV[2])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. decimal(now - ARGV[3]))) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('HDEL', KEYS[2], id)
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[5]) end
return {redis.call('GET', KEYS[3]), decimal(now)}
