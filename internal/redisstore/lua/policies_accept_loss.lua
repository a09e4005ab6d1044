-- Accepts the loss of the marked epoch, and returns whether there was one. What is stored counts as changed, so that
-- all replicas read it again.
--
-- KEYS: version, epoch, lost, accepted. ARGV: an epoch, maximum of accepted ones.

local lost = redis.call('GET', KEYS[3])
if not lost then return 0 end
local all, n = lost, 1
for epoch in string.gmatch(redis.call('GET', KEYS[4]) or '', '%S+') do
  if epoch ~= lost and n < tonumber(ARGV[2]) then
    all, n = all .. ' ' .. epoch, n + 1
  end
end
redis.call('SET', KEYS[4], all)
redis.call('DEL', KEYS[3])
redis.call('SETNX', KEYS[2], ARGV[1])
redis.call('INCR', KEYS[1])
return 1
