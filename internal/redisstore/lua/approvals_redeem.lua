-- Redeems an approved approval. It is idempotent for one token.
--
-- ARGV: id, token, fields and values that must be equal.

-- include approvals

local id, token = ARGV[5], ARGV[6]
local r = load(id)
if not r then return answer('unknown') end
local record = named('record', id)
local differ = {}
for i = 7, #ARGV, 2 do
  if redis.call('HGET', record, ARGV[i]) ~= ARGV[i + 1] then differ[#differ + 1] = ARGV[i] end
end
if #differ > 0 then return answer('mismatch', differ) end
local trace = redis.call('HGET', record, 'trace') or ''
if r.state == 'used' and redis.call('HGET', record, 'token') == token then
  redis.call('HSET', record, 'token', token) -- a write, for replicas to be waited for
  return answer('approved', trace, whole(r))
end
age(r)
if r.state ~= 'approved' then return answer(r.state) end
redis.call('HSET', record, 'state', 'used', 'token', token, 'changed', decimal(now))
close(r)
tell('used', id)
return answer('approved', trace, whole(r))
