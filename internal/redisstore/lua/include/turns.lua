-- What all scripts of turns at one engine share.
--
-- The queue is start-time fair. The next tenant is the waiting one with the least score; its score then grows by one. A
-- tenant that begins to wait gets the score of the last turn, or its own if that is greater. Among equal scores, and
-- within a tenant, tickets are served in the order of arrival. seq grows with the clock, so that it also grows across a
-- loss of Redis' data.
--
-- state has v, the score of the last turn; seq, the last sequence number; said, the time of the last step, ms; and for
-- each waiting ticket "of:ID", its member of the queue, "TENANT:SEQ:ID". held may also have "lost": then no ticket gets
-- a turn until the holder from before the loss has had time to report.
--
-- KEYS: state, held, line, alive, tenants, served. ARGV: channel, ticket, lease in ms, and whether Redis may have lost
-- data. In that case no ticket is dropped for being silent while Redis was unavailable.

-- include now

local state, held, line, alive, tenants, served = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, ticket, lease, wary = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local half = math.ceil(lease / 2)
local function head(tenant)
  return redis.call('ZRANGEBYLEX', line, '[' .. tenant .. ':', '(' .. tenant .. ';', 'LIMIT', 0, 1)[1]
end
local function drop(id)
  redis.call('ZREM', alive, id)
  local place = redis.call('HGET', state, 'of:' .. id)
  if not place then return end
  redis.call('HDEL', state, 'of:' .. id)
  redis.call('ZREM', line, place)
  local tenant = string.match(place, '^[^:]*')
  local score = redis.call('ZSCORE', tenants, tenant)
  if score and not head(tenant) then
    redis.call('ZREM', tenants, tenant)
    redis.call('ZADD', served, score, tenant)
  end
end
local function extend(key)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', decimal(now + half))) do
    redis.call('ZADD', key, decimal(now + half), id)
  end
end
local function sweep()
  local said = tonumber(redis.call('HGET', state, 'said') or '')
  if wary and not said then
    redis.call('ZADD', held, decimal(now + half), 'lost')
  elseif wary and now - said > half then
    extend(held)
    extend(alive)
  end
  redis.call('HSET', state, 'said', decimal(now))
  redis.call('ZREMRANGEBYSCORE', held, '-inf', decimal(now))
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', decimal(now), 'LIMIT', 0, 1000)) do drop(id) end
end
local function grant()
  if redis.call('ZCARD', held) > 0 then return end
  local least = redis.call('ZRANGE', tenants, 0, 0, 'WITHSCORES')[2]
  if not least then return end
  local first, since
  for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', tenants, least, least)) do
    local place = head(tenant)
    local seq = place and string.match(place, ':(%d+):')
    if seq and (not since or seq < since) then first, since = place, seq end
  end
  if not first then return end
  local tenant, id = string.match(first, '^([^:]*):%d+:(.*)$')
  redis.call('HSET', state, 'v', least)
  redis.call('ZINCRBY', tenants, 1, tenant)
  redis.call('ZADD', held, redis.call('ZSCORE', alive, id) or decimal(now + lease), id)
  drop(id)
  redis.call('ZREMRANGEBYSCORE', served, '-inf', least)
  redis.call('ZREMRANGEBYRANK', served, 0, -1001)
  if id ~= ticket then redis.pcall('PUBLISH', channel, id) end
end
local function last()
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, decimal(2 * lease + 3600000)) end
end
