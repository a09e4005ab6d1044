-- Begins all scripts. now is in milliseconds.

-- include version

local leases, ends, ended, state, manifests = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function changed()
  redis.call('HSETNX', state, 'epoch', ARGV[2])
  redis.call('HSET', state, 'version', nextVersion(redis.call('HGET', state, 'version')))
  redis.call('PUBLISH', ARGV[1], '')
end
