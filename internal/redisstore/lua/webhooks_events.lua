-- Reads a tenant's events. It returns the next cursor, and id, kind and approval of each event.
--
-- KEYS: events. ARGV: cursor or "", maximum, age in ms of the oldest event without a cursor.

-- include now

local after = ARGV[1]
if after == '' then after = decimal(now - tonumber(ARGV[3])) .. '-0' end
local found = {}
for _, e in ipairs(redis.call('XRANGE', KEYS[1], '(' .. after, '+', 'COUNT', ARGV[2])) do
  after = e[1]
  found[#found + 1] = e[1]
  found[#found + 1] = e[2][2]
  found[#found + 1] = e[2][4]
end
return {after, found}
