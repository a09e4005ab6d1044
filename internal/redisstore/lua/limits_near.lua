-- Adds a tenant to those with a quota near its limit. The arguments are the most tenants, the tenant, and the end of
-- the quota's period (ms). Tenants whose periods have ended are removed.

-- include now

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', decimal(now))
local until_ = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[2]) or '0')
if tonumber(ARGV[3]) > until_ then redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2]) end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -tonumber(ARGV[1]) - 1)
return 1
