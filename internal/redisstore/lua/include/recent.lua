-- oldest returns members of order that belong to a flow. forget deletes members of a flow and their calls. A member is
-- flow:time:id, with 16 digits of the time. A pattern that finds the id takes a hundred times as long.
--
-- KEYS: order, flows, calls.

local order, flows, calls = KEYS[1], KEYS[2], KEYS[3]
local function oldest(flow, most)
  return redis.call('ZRANGEBYLEX', order, '[' .. flow .. ':', '(' .. flow .. ';', 'LIMIT', 0, most)
end
local function forget(flow, members)
  local ids = {}
  for i, member in ipairs(members) do ids[i] = string.sub(member, #flow + 19) end
  redis.call('ZREM', order, unpack(members))
  redis.call('HDEL', calls, unpack(ids))
end
