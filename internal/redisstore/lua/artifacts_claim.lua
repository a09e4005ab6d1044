-- Makes a tenant the owner of an artifact that has none. It returns 1 if the tenant is the owner, else 0.
--
-- ARGV: tenant, TTL in ms.

local first = redis.pcall('GET', KEYS[1])
if type(first) == 'string' and first ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
