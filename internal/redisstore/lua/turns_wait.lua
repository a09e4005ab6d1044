-- Enqueues a ticket, or renews it. ARGV: tenant, maximum, seq.
--
-- A ticket that gets the turn keeps its lease as a waiting ticket until its next request.

-- include turns

local tenant, most, seq = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
sweep()
local known = redis.call('HGET', state, 'of:' .. ticket)
if not known and not redis.call('ZSCORE', held, ticket) then
  local score = redis.call('ZSCORE', tenants, tenant)
  if seq == 0 then
    local n = redis.call('ZCARD', line)
    local full = n >= most and (score or n >= 2 * most) and (n > 0 or redis.call('ZCARD', held) > 0)
    if full then
      grant()
      last()
      return {'full', 0, 0}
    end
    seq = math.max(micros, tonumber(redis.call('HGET', state, 'seq') or '0') + 1)
    redis.call('HSET', state, 'seq', decimal(seq))
  end
  known = tenant .. string.format(':%016.0f:', seq) .. ticket
  redis.call('HSET', state, 'of:' .. ticket, known)
  redis.call('ZADD', line, 0, known)
  if not score then
    local v = tonumber(redis.call('HGET', state, 'v') or '0')
    redis.call('ZADD', tenants, decimal(math.max(v, tonumber(redis.call('ZSCORE', served, tenant) or '0'))), tenant)
    redis.call('ZREM', served, tenant)
  end
end
if known then
  seq = tonumber(string.match(known, ':(%d+):'))
  redis.call('ZADD', alive, decimal(now + lease), ticket)
  grant()
end
local mine = redis.call('ZSCORE', held, ticket)
if mine then redis.call('ZADD', held, decimal(now + lease), ticket) end
last()
if mine then return {'mine', seq, 0} end
local ends = redis.call('ZRANGE', held, -1, -1, 'WITHSCORES')[2]
return {'waits', seq, tonumber(ends or decimal(now)) - now}
