-- Grants the lease of a discovery. It returns 0 and 0; or the remaining ms of another lease, and 1; or the remaining ms
-- until the next discovery, and 2.
--
-- KEYS: turns. ARGV: capability, lease, duration of the lease, interval of discoveries (ms).

-- include now

local held = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local id, ends, began = string.match(held, '^(%S+) (%d+) (%d+)$')
if id and id ~= ARGV[2] then
  local left = ends - now
  if left > 0 then return {left, 1} end
  left = began + ARGV[4] - now
  if left > 0 then return {left, 2} end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. string.format(' %.0f %.0f', now + ARGV[3], now))
return {0, 0}
