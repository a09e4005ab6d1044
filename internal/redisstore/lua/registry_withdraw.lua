-- include registry

local field, lease = ARGV[3], ARGV[4]
local old = redis.call('HGET', leases, field)
if not old then return 'unknown' end
local holder = string.match(old, '^([^\n]*)\n')
if lease ~= '' and holder and holder ~= lease then return 'superseded' end
redis.call('ZADD', ended, now, field)
redis.call('HDEL', leases, field)
redis.call('ZREM', ends, field)
changed()
return 'ended'
