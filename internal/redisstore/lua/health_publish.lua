-- Writes observations, and publishes them unless notices wait. Returns the version of the shard's last notice, and the
-- ms after which its version is to be read, which publishes changes that wait; 0 if none do.
--
-- KEYS: page, changes that wait, paid. ARGV: channel, the beginning of the event, live replicas, TTL in ms, and for
-- each observation its field, the age of its state in ms, and the rest, or nothing to delete it.

-- include health_notices

local page, waiting, paid = KEYS[1], KEYS[2], KEYS[3]
must(page, 'hash') must(waiting, 'set') must(paid, 'string')
if not tonumber(redis.call('HGET', page, 'v') or '') then redis.call('DEL', page, waiting) end
local alone, fields = redis.call('EXISTS', waiting) == 0, {}
for i = 5, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    redis.call('HDEL', page, ARGV[i])
  else
    redis.call('HSET', page, ARGV[i], decimal(now - ARGV[i + 1]) .. ' ' .. decimal(now) .. ' ' .. ARGV[i + 2])
  end
  fields[#fields + 1] = ARGV[i]
end
redis.call('SADD', waiting, unpack(fields))
redis.call('PEXPIRE', waiting, ARGV[4])
local wait = notify(page, waiting, paid, ARGV[1], ARGV[2], ARGV[3], alone)
redis.call('PEXPIRE', page, ARGV[4])
return {redis.call('HGET', page, 'v'), decimal(wait)}
