-- Claims a key, or returns its claim. ARGV: fingerprint, lease, TTL, maximum.

-- include idempotency

local print, lease, ttl, most = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local r = redis.call('HMGET', record, 'state', 'print', 'token', 'until', 'answer')
if r[1] == 'running' then
  local left = (tonumber(r[4]) or 0) - now
  if r[3] == token then
    redis.call('HSET', record, 'token', token) -- a write, for replicas to be waited for
    return {'mine', r[2] or '', '', 0}
  end
  if left > 0 then return {'running', r[2] or '', '', left} end
  return {'unknown', r[2] or '', '', 0}
end
if r[1] then return {r[1], r[2] or '', r[5] or '', 0} end
if most == 0 then return {'none', '', '', 0} end
redis.call('ZREMRANGEBYSCORE', index, '-inf', decimal(now))
if redis.call('ZCARD', index) >= most then return {'full', '', '', 0} end
redis.call('HSET', record, 'state', 'running', 'print', print, 'token', token, 'until', decimal(now + lease))
keep(math.max(ttl, lease))
return {'mine', print, '', 0}
