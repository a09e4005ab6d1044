-- Releases an entry. ARGV: id, lease, attempts, ms to wait.

-- include webhooks

local id = ARGV[1]
if not holds(id, ARGV[2]) then return 0 end
redis.call('HSET', claims, id, ARGV[3] .. ' ')
redis.call('ZADD', due, now + tonumber(ARGV[4]), id)
return 1
