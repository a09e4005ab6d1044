package redisstore

// luaTurns begins the scripts of turns at one engine.
//
// The queue is start-time fair. The next tenant is the waiting one with the least score; its score then grows by one.
// A tenant that begins to wait gets the score of the last turn, or its own if that is greater. Among equal scores,
// and within a tenant, tickets are served in the order of arrival. seq grows with the clock, so that it also grows
// across a loss of Redis' data.
//
// state has v, the score of the last turn; seq, the last sequence number; said, the time of the last step, ms; and
// for each waiting ticket "of:ID", its member of the queue, "TENANT:SEQ:ID". held may also have "lost": then no
// ticket gets a turn until the holder from before the loss has had time to report.
//
// KEYS: state, held, line, alive, tenants, served. ARGV: channel, ticket, lease in ms, and whether Redis may have
// lost data. In that case no ticket is dropped for being silent while Redis was unavailable.
const luaTurns = `
local state, held, line, alive, tenants, served = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, ticket, lease, wary = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local t = redis.call('TIME')
local micros = tonumber(t[1]) * 1000000 + tonumber(t[2])
local now = math.floor(micros / 1000)
local half = math.ceil(lease / 2)
local function text(n) return string.format('%.0f', n) end
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
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', text(now + half))) do
    redis.call('ZADD', key, text(now + half), id)
  end
end
local function sweep()
  local said = tonumber(redis.call('HGET', state, 'said') or '')
  if wary and not said then
    redis.call('ZADD', held, text(now + half), 'lost')
  elseif wary and now - said > half then
    extend(held)
    extend(alive)
  end
  redis.call('HSET', state, 'said', text(now))
  redis.call('ZREMRANGEBYSCORE', held, '-inf', text(now))
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', text(now), 'LIMIT', 0, 1000)) do drop(id) end
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
  redis.call('ZADD', held, redis.call('ZSCORE', alive, id) or text(now + lease), id)
  drop(id)
  redis.call('ZREMRANGEBYSCORE', served, '-inf', least)
  redis.call('ZREMRANGEBYRANK', served, 0, -1001)
  if id ~= ticket then redis.pcall('PUBLISH', channel, id) end
end
local function last()
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, text(2 * lease + 3600000)) end
end
`

// waitTurnScript enqueues a ticket, or renews it. ARGV: tenant, maximum, seq.
//
// A ticket that gets the turn keeps its lease as a waiting ticket until its next request.
var waitTurnScript = newScript(luaTurns + `
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
    redis.call('HSET', state, 'seq', text(seq))
  end
  known = tenant .. string.format(':%016.0f:', seq) .. ticket
  redis.call('HSET', state, 'of:' .. ticket, known)
  redis.call('ZADD', line, 0, known)
  if not score then
    local v = tonumber(redis.call('HGET', state, 'v') or '0')
    redis.call('ZADD', tenants, text(math.max(v, tonumber(redis.call('ZSCORE', served, tenant) or '0'))), tenant)
    redis.call('ZREM', served, tenant)
  end
end
if known then
  seq = tonumber(string.match(known, ':(%d+):'))
  redis.call('ZADD', alive, text(now + lease), ticket)
  grant()
end
local mine = redis.call('ZSCORE', held, ticket)
if mine then redis.call('ZADD', held, text(now + lease), ticket) end
last()
if mine then return {'mine', seq, 0} end
local ends = redis.call('ZRANGE', held, -1, -1, 'WITHSCORES')[2]
return {'waits', seq, tonumber(ends or text(now)) - now}
`)

// holdTurnScript renews a turn.
var holdTurnScript = newScript(luaTurns + `
sweep()
drop(ticket)
redis.call('ZADD', held, text(now + lease), ticket)
redis.call('ZREM', held, 'lost')
last()
return 1
`)

// leaveTurnScript removes a ticket. ARGV: 1 if it has the turn.
var leaveTurnScript = newScript(luaTurns + `
sweep()
drop(ticket)
redis.call('ZREM', held, ticket)
if ARGV[5] == '1' then redis.call('ZREM', held, 'lost') end
grant()
last()
return 1
`)

// seizeScript acquires or renews the lease of an engine. KEYS: agent. ARGV: channel, id, who, lease in ms, 1 to take
// it over.
var seizeScript = newScript(`
local has = redis.call('GET', KEYS[1])
local other = has and string.match(has, '^%S+')
if other == ARGV[2] then other = nil end
if other and ARGV[5] ~= '1' then return 0 end
redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
if other then redis.pcall('PUBLISH', ARGV[1], other) end
return 1
`)

// yieldScript releases the lease of an engine. KEYS: agent. ARGV: id.
var yieldScript = newScript(`
local has = redis.call('GET', KEYS[1])
if has and string.match(has, '^%S+') == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)
