-- Renews a claim. ARGV: lease, TTL.

-- include idempotency

local lease, ttl = tonumber(ARGV[3]), tonumber(ARGV[4])
local r = redis.call('HMGET', record, 'state', 'token')
if r[1] ~= 'running' or r[2] ~= token then return 0 end
redis.call('HSET', record, 'until', decimal(now + lease))
keep(math.max(ttl, lease))
return 1
