-- Returns what replicas said within a time.
--
-- KEYS: replicas. ARGV: the time, ms.

local t = redis.call('TIME')
local now, all = t[1] * 1000 + math.floor(t[2] / 1000), {}
for _, v in ipairs(redis.call('HVALS', KEYS[1])) do
  local was, said = string.match(v, '^(%d+) (.*)$')
  if was and now - tonumber(was) <= tonumber(ARGV[1]) then all[#all + 1] = said end
end
return all
