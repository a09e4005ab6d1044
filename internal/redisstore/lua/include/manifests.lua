-- Leases name manifests by their sum in their JSON. tidy deletes manifests that no lease names. It visits all leases,
-- so it runs only once in a while. size returns the bytes of all manifests.

-- include registry

local function tidy()
  if redis.call('HLEN', manifests) == 0 then return end
  local named = {}
  for _, value in ipairs(redis.call('HVALS', leases)) do
    named[string.match(value, '"manifest":"(%x+)"') or ''] = true
  end
  for _, sum in ipairs(redis.call('HKEYS', manifests)) do
    if not named[sum] then redis.call('HDEL', manifests, sum) end
  end
end
local function size()
  local n = 0
  for _, sum in ipairs(redis.call('HKEYS', manifests)) do n = n + redis.call('HSTRLEN', manifests, sum) end
  return n
end
