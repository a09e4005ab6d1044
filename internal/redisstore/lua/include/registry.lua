-- What all scripts of leases share. holder returns the lease of a value, close ends one, changed publishes that.
--
-- KEYS: leases, ends, ended, state, manifests. ARGV: channel, a new epoch.

-- include journal

local leases, ends, ended, state, manifests = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local function holder(value) return string.match(value, '^([^\n]*)\n') end
local function close(field)
  redis.call('ZADD', ended, now, field)
  redis.call('HDEL', leases, field)
  redis.call('ZREM', ends, field)
end
local function changed()
  record(state, ARGV[2])
  redis.call('PUBLISH', ARGV[1], '')
end
