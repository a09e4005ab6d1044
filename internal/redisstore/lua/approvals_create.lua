-- Creates an approval unless there is one for the same call.
--
-- ARGV: id, digest of the call, digest of the session's calls or "", TTL, maximum of open approvals, time until it
-- escalates or 0, fields and values.

-- include approvals

local id, call, session, ttl, most = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
sweep()
if session ~= '' then
  local held = redis.pcall('GET', named('session', session))
  if type(held) == 'string' then
    local said, by, seal = string.match(held, '^(%a+) (%S+) ?(%S*)$')
    if said == 'approved' or said == 'denied' then
      return answer('remembered', said, by, redis.call('PTTL', named('session', session)), seal)
    end
  end
  if held then bad = bad + 1 end
end
local held = redis.pcall('GET', named('call', call))
if type(held) == 'string' then
  local r = find(held)
  if r and (r.state == 'pending' or r.state == 'approved' or r.state == 'denied' and now < r.expires) then
    return answer('found', whole(r))
  end
end
if redis.call('ZCARD', open) >= most then return answer('full') end
if redis.call('ZCARD', index) >= 5 * most then
  for _, each in ipairs(redis.call('ZREVRANGE', index, 0, 99)) do
    local gone = string.match(each, ':(.*)$')
    if not redis.call('ZSCORE', open, gone) then
      redis.call('DEL', named('record', gone))
      redis.call('ZREM', index, each)
    end
  end
end
local record = named('record', id)
redis.call('HSET', record, 'state', 'pending', 'created', decimal(now), 'expires', decimal(now + ttl),
  'call', call, 'grant', session, unpack(ARGV, 11))
redis.call('PEXPIRE', record, ttl + keep)
local escalates = tonumber(ARGV[10])
if escalates > 0 and escalates < ttl then
  redis.call('ZADD', base .. 'escalate', now + escalates, id)
  redis.pcall('PEXPIRE', base .. 'escalate', 2 * ttl + keep)
end
redis.call('ZADD', open, now + ttl, id)
redis.call('ZADD', index, 0, string.format('%015.0f', 999999999999999 - now) .. ':' .. id)
redis.call('PEXPIRE', open, 2 * ttl + keep)
redis.call('PEXPIRE', index, 2 * ttl + keep)
redis.pcall('ZADD', base .. 'pending', now, id)
redis.pcall('PEXPIRE', base .. 'pending', 2 * ttl + keep)
redis.call('SET', named('call', call), id, 'PX', ttl)
tell('asked', id)
return answer('new', whole(load(id)))
