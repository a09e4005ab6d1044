-- Reads dead letters, the newest first: id, time of death in ms, and text of each.
--
-- ARGV: offset, maximum.

-- include webhooks

local found = {}
local all = redis.call('ZREVRANGE', dead, ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
for i = 1, #all, 2 do
  found[#found + 1] = all[i]
  found[#found + 1] = all[i + 1]
  found[#found + 1] = redis.call('HGET', letters, all[i]) or ''
end
return found
