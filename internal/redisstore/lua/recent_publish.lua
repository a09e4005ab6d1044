-- Adds calls, changes, counts, and what a replica says of itself. A call that is there already is not added again.
-- While there are too many calls, the oldest one of the flow with the most is dropped. Silent replicas are looked for
-- every ten seconds, because a loop over a thousand of them takes Redis a millisecond.
--
-- KEYS: order, flows, calls, changes, replicas, and a key for each minute. ARGV: calls to keep, TTL in ms, channel,
-- message for it, changes to keep, number of calls, flow, member of order, id and text of each; number of changes, text
-- of each; replica, or "", what it says; TTL of minutes in ms, maximum of fields of a minute; and any number of: number
-- of a key, kind, tenant, number to add.

-- include now
-- include recent

local changes, replicas = KEYS[4], KEYS[5]
local keep, ttl, at = tonumber(ARGV[1]), ARGV[2], 6
local n = tonumber(ARGV[at])
for from = 1, n, 1000 do -- a few commands for many calls
  local ids, first = {}, at
  for _ = from, math.min(n, from + 999) do
    ids[#ids + 1] = ARGV[at + 3]
    at = at + 4
  end
  local known, texts, members, more = redis.call('HMGET', calls, unpack(ids)), {}, {}, {}
  local seen = {}
  for i, id in ipairs(ids) do
    local flow, member, text = ARGV[first + 4 * i - 3], ARGV[first + 4 * i - 2], ARGV[first + 4 * i]
    if not known[i] and not seen[id] then
      seen[id] = true
      texts[#texts + 1], texts[#texts + 2] = id, text
      members[#members + 1], members[#members + 2] = 0, member
      more[flow] = (more[flow] or 0) + 1
    end
  end
  if #texts > 0 then
    redis.call('HSET', calls, unpack(texts))
    redis.call('ZADD', order, unpack(members))
    for flow, m in pairs(more) do redis.call('ZINCRBY', flows, m, flow) end
  end
end
if n > 0 then
  local over = redis.call('ZCARD', order) - keep
  while over > 0 do -- down to the second loudest at once: the embedded Redis sorts all for each range
    local top = redis.call('ZREVRANGE', flows, 0, 1, 'WITHSCORES')
    local flow = top[1]
    if not flow then break end
    local drop = math.min(over, math.max(1, tonumber(top[2]) - tonumber(top[4] or 0)), 1000)
    local some = oldest(flow, drop)
    if #some > 0 then forget(flow, some) end
    local left = tonumber(redis.call('ZINCRBY', flows, -#some, flow))
    if #some < drop or left <= 0 then redis.call('ZREM', flows, flow) end
    over = over - #some
  end
  for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ttl) end
  redis.call('PUBLISH', ARGV[3], ARGV[4])
end
at = at + 1
for i = 1, tonumber(ARGV[at]) do
  redis.call('XADD', changes, 'MAXLEN', '~', ARGV[5], '*', 'change', ARGV[at + i])
end
at = at + tonumber(ARGV[at])
local id, said, mttl, most = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
at = at + 4
if id ~= '' then
  redis.call('HSET', replicas, id, string.format('%d %s', now, said))
  redis.call('PEXPIRE', replicas, 120000)
  local swept = tonumber(redis.call('HGET', replicas, '') or '')
  if not swept or now < swept or now - swept >= 10000 then
    local all = redis.call('HGETALL', replicas)
    for i = 1, #all, 2 do
      local was = tonumber(string.match(all[i + 1], '^(%d+) ') or '')
      if not was or now - was > 60000 then redis.call('HDEL', replicas, all[i]) end
    end
    redis.call('HSET', replicas, '', decimal(now))
  end
end
while at < #ARGV do
  local key, kind, tenant, more = KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  redis.call('HINCRBY', key, kind .. '-', more)
  if redis.call('HEXISTS', key, kind .. ':' .. tenant) == 1 or redis.call('HLEN', key) < most then
    redis.call('HINCRBY', key, kind .. ':' .. tenant, more)
  end
  redis.call('PEXPIRE', key, mttl)
  at = at + 4
end
return 1
