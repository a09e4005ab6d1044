-- Ends a lease. ARGV: channel, epoch, field, lease or "" for any.

-- include registry

local field, lease = ARGV[3], ARGV[4]
local old = redis.call('HGET', leases, field)
if not old then return 'unknown' end
if lease ~= '' and holder(old) and holder(old) ~= lease then return 'superseded' end
close(field)
changed()
return 'ended'
