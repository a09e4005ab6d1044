-- Deletes the calls of two flows, and the counts of their tenant.
--
-- KEYS: order, flows, calls, and a key for each minute. ARGV: flow, flow, tenant.

-- include minutes
-- include recent

for i = 1, 2 do
  local flow = ARGV[i]
  while true do
    local some = oldest(flow, 1000)
    if #some == 0 then break end
    forget(flow, some)
  end
  redis.call('ZREM', flows, flow)
end
for i = 4, #KEYS do
  for _, kind in ipairs(kinds) do redis.call('HDEL', KEYS[i], kind .. ':' .. ARGV[3]) end
end
return 1
