-- Leases entries that are due. Where more are due than it may lease, tenants take turns: the next entry is the oldest
-- one of a tenant of which the fewest are leased, among the first 2,000 that are due. It returns the number of entries,
-- of dead letters and of malformed entries, ms until the next entry is due or -1, and for each leased entry its id,
-- text and attempts, which are negative for one that was a dead letter.
--
-- ARGV: lease, maximum, duration of the lease in ms.

-- include webhooks

local lease, most, duration = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local bad, taken = 0, {}
local function fair(ids)
  local of, order, leased = {}, {}, {}
  for i, text in ipairs(redis.call('HMGET', entries, unpack(ids))) do
    local tenant = string.match(text or '', '^[^:]*')
    if not of[tenant] then
      of[tenant], leased[tenant] = {}, 0
      order[#order + 1] = tenant
    end
    table.insert(of[tenant], ids[i])
  end
  local later = redis.call('ZRANGEBYSCORE', due, '(' .. decimal(now), '+inf', 'LIMIT', 0, 2000)
  if #later > 0 and #order > 1 then
    local texts, held = redis.call('HMGET', entries, unpack(later)), redis.call('HMGET', claims, unpack(later))
    for i, text in ipairs(texts) do
      local tenant = string.match(text or '', '^[^:]*')
      if leased[tenant] and string.match(held[i] or '', '^%d+ .') then leased[tenant] = leased[tenant] + 1 end
    end
  end
  local picked, first = {}, now % #order
  while #picked < most do
    local best
    for i = 1, #order do
      local tenant = order[(first + i - 1) % #order + 1]
      if #of[tenant] > 0 and (not best or leased[tenant] < leased[best]) then best = tenant end
    end
    if not best then break end
    picked[#picked + 1] = table.remove(of[best], 1)
    leased[best] = leased[best] + 1
  end
  return picked
end
local ready = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, 2000)
if #ready > most then ready = fair(ready) end
for _, id in ipairs(ready) do
  local text = redis.call('HGET', entries, id)
  local tries = string.match(redis.call('HGET', claims, id) or '', '^(%d+) ')
  if text and tries then
    local retried = tries == '00'
    tries = tonumber(tries) + 1
    redis.call('HSET', claims, id, tries .. ' ' .. lease)
    redis.call('ZADD', due, now + duration, id)
    taken[#taken + 1] = id
    taken[#taken + 1] = text
    taken[#taken + 1] = retried and -tries or tries
  else
    bad = bad + 1
    remove(id)
  end
end
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
local wait = -1
if first[2] then wait = math.max(tonumber(first[2]) - now, 1) end
return {redis.call('ZCARD', due), redis.call('ZCARD', dead), bad, wait, taken}
