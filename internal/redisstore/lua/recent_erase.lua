-- Deletes the calls of two flows, and the counts of their tenant.
--
-- KEYS: order, flows, calls, and a key for each minute. ARGV: flow, flow, tenant.

local order, flows, calls = KEYS[1], KEYS[2], KEYS[3]
for i = 1, 2 do
  local flow = ARGV[i]
  while true do
    local some = redis.call('ZRANGEBYLEX', order, '[' .. flow .. ':', '(' .. flow .. ';', 'LIMIT', 0, 1000)
    if #some == 0 then break end
    local ids = {}
    for n, member in ipairs(some) do ids[n] = string.match(member, '([^:]*)$') end
    redis.call('ZREM', order, unpack(some))
    redis.call('HDEL', calls, unpack(ids))
  end
  redis.call('ZREM', flows, flow)
end
for i = 4, #KEYS do
  for _, kind in ipairs({'c', 'r', 'e', 'a'}) do redis.call('HDEL', KEYS[i], kind .. ':' .. ARGV[3]) end
end
return 1
