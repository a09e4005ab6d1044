-- Undoes a redemption. It is idempotent for one token.
--
-- ARGV: id, token.

-- include approvals

local id, token = ARGV[5], ARGV[6]
local record = named('record', id)
local r = load(id)
if not r then return answer('no') end
if r.state ~= 'used' then
  if redis.call('HGET', record, 'released') == token then return answer('released') end
  return answer('no')
end
if redis.call('HGET', record, 'token') ~= token then return answer('no') end
redis.call('HSET', record, 'state', 'approved', 'released', token, 'changed', decimal(now))
redis.call('HDEL', record, 'token')
r.state = 'approved'
if now >= r.expires then
  age(r)
else
  redis.call('ZADD', open, r.expires, id)
  if redis.call('PTTL', open) < 0 then redis.call('PEXPIRE', open, r.expires - now + keep) end
  redis.call('SET', named('call', r.call), id, 'NX', 'PX', r.expires - now)
  tell('released', id)
end
return answer('released')
