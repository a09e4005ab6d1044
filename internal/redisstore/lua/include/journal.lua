-- record counts a change in a state, and returns its version. The epoch says that all of it was lost: the first change
-- afterwards has a new one.

-- include version

local function record(state, epoch)
  redis.call('HSETNX', state, 'epoch', epoch)
  local version = nextVersion(redis.call('HGET', state, 'version'))
  redis.call('HSET', state, 'version', version)
  return version
end
