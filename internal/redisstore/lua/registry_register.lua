-- Stores or renews a lease. A renewal publishes no event, since nothing changes for other replicas.
--
-- ARGV: channel, epoch, field, value, TTL in ms, lease, "1" to renew, maximum of leases, sum of the manifest or "", its
-- text or "", maximum size of all manifests.

-- include manifests

local field, value, ttl, lease, renew, most = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[8])
local old = redis.call('HGET', leases, field)
local sum, text, room = ARGV[9], ARGV[10], tonumber(ARGV[11])
if renew == '1' and old and holder(old) and holder(old) ~= lease then return 'superseded' end
if not old and redis.call('HLEN', leases) >= most then return 'full' end
if sum ~= '' and redis.call('HEXISTS', manifests, sum) == 0 then
  if text == '' then return 'manifest' end
  if size() + #text > room then
    tidy()
    if size() + #text > room then return 'manifests full' end
  end
  redis.call('HSET', manifests, sum, text)
end
redis.call('ZADD', ends, now + ttl, field)
if old ~= value then
  redis.call('HSET', leases, field, value)
  redis.call('ZREM', ended, field)
  changed()
end
return 'registered'
