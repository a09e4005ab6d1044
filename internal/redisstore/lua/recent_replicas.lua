-- Returns what replicas said within a time.
--
-- KEYS: replicas. ARGV: the time, ms.

-- include now

local all = {}
for _, v in ipairs(redis.call('HVALS', KEYS[1])) do
  local was, said = string.match(v, '^(%d+) (.*)$')
  if was and now - tonumber(was) <= tonumber(ARGV[1]) then all[#all + 1] = said end
end
return all
