-- Makes an entry a dead letter. It returns the number of the oldest letters that it removed, or -1.
--
-- ARGV: id, lease, attempts and reason, maximum.

-- include webhooks

local id, most, dropped = ARGV[1], tonumber(ARGV[4]), 0
if not holds(id, ARGV[2]) then return -1 end
local text = redis.call('HGET', entries, id)
remove(id)
redis.call('HSET', letters, id, text .. ':' .. ARGV[3])
redis.call('ZADD', dead, now, id)
local many = redis.call('ZCARD', dead) - most
for _, old in ipairs(many > 0 and redis.call('ZRANGE', dead, 0, many - 1) or {}) do
  redis.call('ZREM', dead, old)
  redis.call('HDEL', letters, old)
  dropped = dropped + 1
end
return dropped
