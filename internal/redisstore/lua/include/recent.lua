-- oldest returns members of order that belong to a flow. forget deletes members and their calls.
--
-- KEYS: order, flows, calls.

local order, flows, calls = KEYS[1], KEYS[2], KEYS[3]
local function oldest(flow, most)
  return redis.call('ZRANGEBYLEX', order, '[' .. flow .. ':', '(' .. flow .. ';', 'LIMIT', 0, most)
end
local function forget(members)
  local ids = {}
  for i, member in ipairs(members) do ids[i] = string.match(member, '([^:]*)$') end
  redis.call('ZREM', order, unpack(members))
  redis.call('HDEL', calls, unpack(ids))
end
