-- Stores a session at a backend if there is none under its name, and renews it. If there is another one, it returns its
-- value, the number of this use of it, and 0. Otherwise the first two are nil and 0, and the last is 1 if a malformed
-- session was deleted.
--
-- ARGV: id, or "" to store none; value; number of earlier uses; TTL in ms; name of the replica.

-- include now

local id, value, uses, ttl, replica = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local held = redis.pcall('HMGET', KEYS[1], 'id', 'value', 'uses')
local bad = 0
if held.err or held[1] and not (held[2] and string.match(held[3] or '', '^%d+$') and #held[3] < 16) then
  redis.call('DEL', KEYS[1])
  bad, held = 1, {}
end
local other
if held[1] and held[1] ~= id then
  other, uses = held[2], decimal(held[3] + 1)
  redis.call('HSET', KEYS[1], 'uses', uses)
elseif id == '' then
  return {false, '0', bad}
elseif not held[1] then
  redis.call('HSET', KEYS[1], 'id', id, 'value', value, 'uses', uses)
end
local last = redis.call('HMGET', KEYS[1], 'user', 'used')
if last[1] and last[1] ~= replica then
  redis.call('HSET', KEYS[1], 'before', last[2] or '0')
end
redis.call('HSET', KEYS[1], 'user', replica, 'used', decimal(now))
redis.call('PEXPIRE', KEYS[1], ttl)
return {other or false, other and uses or '0', bad}
