-- note records and publishes a change of a capability.

-- include journal

local function note(state, changes, epoch, channel, capability)
  redis.call('ZADD', changes, record(state, epoch), capability)
  redis.pcall('PUBLISH', channel, '')
end
