-- Renews a turn.

-- include turns

sweep()
drop(ticket)
redis.call('ZADD', held, decimal(now + lease), ticket)
redis.call('ZREM', held, 'lost')
last()
return 1
