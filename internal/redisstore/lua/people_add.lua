-- Adds a session to the list, and removes sessions that have ended or are too many.
--
-- KEYS: sessions, the same by their end. ARGV: id, text, end in ms, the bound.

-- include now

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
local most = redis.call('ZCARD', KEYS[2]) - #gone - tonumber(ARGV[4])
if most > 0 then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[2], #gone, #gone + most - 1)) do table.insert(gone, id) end
end
for _, id in ipairs(gone) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
return 1
