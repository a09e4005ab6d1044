-- Deletes a session at a backend, unless it has another id or was used within some time. It returns 1 if it did, else
-- 0.
--
-- ARGV: id, that time in ms.

-- include now

local held = redis.pcall('HMGET', KEYS[1], 'id', 'used')
if held.err or held[1] ~= ARGV[1] or now - (tonumber(held[2]) or 0) < tonumber(ARGV[2]) then
  return 0
end
return redis.call('DEL', KEYS[1])
