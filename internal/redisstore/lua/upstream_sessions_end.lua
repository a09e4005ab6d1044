-- Deletes a session at a backend, unless it has another id or another replica has used it within some time. It returns
-- 1 if it did, else 0.
--
-- ARGV: id, that time in ms, name of the replica.

-- include now

local held = redis.pcall('HMGET', KEYS[1], 'id', 'user', 'used', 'before')
if held.err or held[1] ~= ARGV[1] then
  return 0
end
local used = held[3]
if held[2] == ARGV[3] then
  used = held[4]
end
if now - (tonumber(used) or 0) < tonumber(ARGV[2]) then
  return 0
end
return redis.call('DEL', KEYS[1])
