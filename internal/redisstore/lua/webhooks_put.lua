-- Advances a tenant's cursor and adds events, unless the cursor has changed. Without a new cursor it only adds them. It
-- returns the number of events that were dropped because the outbox is full, or -1. A tenant has at most four times as
-- many as there is room for, so that one leaves room for others; its events are counted when the outbox is half full.
--
-- ARGV: tenant, expected cursor or "", new cursor or "", maximum, ids and texts.

-- include webhooks

local tenant, before, after, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if after ~= '' and (redis.call('HGET', cursors, tenant) or '') ~= before then return -1 end
local room, dropped, own = most - redis.call('ZCARD', due), 0, 0
if #ARGV > 5 and room < most / 2 + #ARGV then
  local name = string.match(ARGV[6], '^[^:]*')
  for _, text in ipairs(redis.call('HVALS', entries)) do
    if string.match(text, '^[^:]*') == name then own = own + 1 end
  end
end
for i = 5, #ARGV, 2 do
  if own < 4 * room then
    add(ARGV[i], ARGV[i + 1])
    room = room - 1
    own = own + 1
  else
    dropped = dropped + 1
  end
end
if after ~= '' then redis.call('HSET', cursors, tenant, after) end
return dropped
