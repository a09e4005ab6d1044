-- Takes members, digests, epoch; replica, digest, ms until death, a new epoch, TTL in ms. Each
-- replica runs it once a second and gets a line of every other one. The lines are stored as sent, since a loop
-- in Lua would dominate Redis' CPU time.

-- include health

must(KEYS[1], 'zset') must(KEYS[2], 'hash') must(KEYS[3], 'string')
redis.call('SET', KEYS[3], ARGV[4], 'NX')
redis.call('ZADD', KEYS[1], whole(now), ARGV[1])
if redis.call('HLEN', KEYS[2]) > redis.call('ZCARD', KEYS[1]) then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[1] .. ' ' .. whole(now) .. ' ' .. ARGV[2])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. whole(now - ARGV[3]))) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('HDEL', KEYS[2], id)
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[5]) end
return {redis.call('GET', KEYS[3]), whole(now), redis.call('HVALS', KEYS[2])}
