-- Deletes some of a tenant's rules about one tool, and returns the number of remaining ones.
--
-- KEYS: rules, names, about. ARGV: how many.

local fields = redis.call('SPOP', KEYS[3], ARGV[1])
if #fields > 0 then
  redis.call('HDEL', KEYS[1], unpack(fields))
  redis.call('ZREM', KEYS[2], unpack(fields))
end
return redis.call('SCARD', KEYS[3])
