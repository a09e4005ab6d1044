-- Is Lua that gives a change the next version, and publishes it.

-- include version

local function note(state, changes, epoch, channel, capability)
  redis.call('HSETNX', state, 'epoch', epoch)
  local version = nextVersion(redis.call('HGET', state, 'version'))
  redis.call('HSET', state, 'version', version)
  redis.call('ZADD', changes, version, capability)
  redis.pcall('PUBLISH', channel, '')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
