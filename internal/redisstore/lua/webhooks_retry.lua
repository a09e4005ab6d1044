-- Makes a dead letter an entry again. ARGV: id.

-- include webhooks

local id = ARGV[1]
local text = redis.call('HGET', letters, id)
if not text then return 0 end
redis.call('HDEL', letters, id)
redis.call('ZREM', dead, id)
add(id, string.match(text, '^[^:]*:[^:]*:[^:]*:[^:]*'))
redis.call('HSET', claims, id, '00 ') -- the second zero says that it was a dead letter
return 1
