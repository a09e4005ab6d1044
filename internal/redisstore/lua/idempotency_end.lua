-- Stores the result of a claim. ARGV: state, TTL, response, channel.

-- include idempotency

local state, ttl, answer, channel = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
if redis.call('HGET', record, 'token') ~= token then return 0 end
if state == 'none' then
  redis.call('DEL', record)
  redis.call('ZREM', index, id)
else
  redis.call('HDEL', record, 'until')
  redis.call('HSET', record, 'state', state, 'answer', answer)
  keep(ttl)
end
redis.pcall('PUBLISH', channel, id)
return 1
