-- Acquires or renews the lease of an engine. KEYS: agent. ARGV: channel, id, who, lease in ms, 1 to take it over.

local has = redis.call('GET', KEYS[1])
local other = has and string.match(has, '^%S+')
if other == ARGV[2] then other = nil end
if other and ARGV[5] ~= '1' then return 0 end
redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
if other then redis.pcall('PUBLISH', ARGV[1], other) end
return 1
