package redisstore

// luaWebhooks begins all scripts of the outbox of webhooks. An entry is in due, entries and claims; a dead letter is
// in dead and letters. The text of an entry never changes.
//
// KEYS: cursors, due, entries, claims, dead, letters. Times are in ms.
const luaWebhooks = `
local cursors, due, entries, claims, dead, letters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function remove(id)
  redis.call('ZREM', due, id)
  redis.call('HDEL', entries, id)
  redis.call('HDEL', claims, id)
end
local function add(id, text)
  redis.call('HSET', entries, id, text)
  redis.call('HSET', claims, id, '0 ')
  redis.call('ZADD', due, math.min(now, tonumber(string.match(text, '%d+$'))), id) -- the oldest first
end
local function holds(id, lease)
  return string.match(redis.call('HGET', claims, id) or '', '^%d+ (.+)$') == lease
end
`

// putScript advances a tenant's cursor and adds events, unless the cursor has changed. It returns the number of
// events that were dropped because the outbox is full, or -1. A tenant has at most four times as many as there is room
// for, so that one leaves room for others; its events are counted when the outbox is half full.
//
// ARGV: tenant, expected cursor or "", new cursor, maximum, ids and texts.
var putScript = newScript(luaWebhooks + `
local tenant, before, after, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if (redis.call('HGET', cursors, tenant) or '') ~= before then return -1 end
local room, dropped, own = most - redis.call('ZCARD', due), 0, 0
if #ARGV > 5 and room < most / 2 + #ARGV then
  local name = string.match(ARGV[6], '^[^:]*')
  for _, text in ipairs(redis.call('HVALS', entries)) do
    if string.match(text, '^[^:]*') == name then own = own + 1 end
  end
end
for i = 5, #ARGV, 2 do
  if own < 4 * room then
    add(ARGV[i], ARGV[i + 1])
    room = room - 1
    own = own + 1
  else
    dropped = dropped + 1
  end
end
redis.call('HSET', cursors, tenant, after)
return dropped
`)

// leaseDueScript leases entries that are due. Where more are due than it may lease, tenants take turns: the next entry
// is the oldest one of a tenant of which the fewest are leased, among the first 2,000 that are due. It returns the
// number of entries, of dead letters and of malformed entries, ms until the next entry is due or -1, and for each
// leased entry its id, text and attempts, which are negative for one that was a dead letter.
//
// ARGV: lease, maximum, duration of the lease in ms.
var leaseDueScript = newScript(luaWebhooks + `
local lease, most, holds = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
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
  local later = redis.call('ZRANGEBYSCORE', due, string.format('(%.0f', now), '+inf', 'LIMIT', 0, 2000)
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
    redis.call('ZADD', due, now + holds, id)
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
`)

// doneScript removes an entry. ARGV: id.
var doneScript = newScript(luaWebhooks + `
remove(ARGV[1])
return 1
`)

// rescheduleScript releases an entry. ARGV: id, lease, attempts, ms to wait.
var rescheduleScript = newScript(luaWebhooks + `
local id = ARGV[1]
if not holds(id, ARGV[2]) then return 0 end
redis.call('HSET', claims, id, ARGV[3] .. ' ')
redis.call('ZADD', due, now + tonumber(ARGV[4]), id)
return 1
`)

// deadLetterScript makes an entry a dead letter. It returns the number of the oldest letters that it removed, or -1.
//
// ARGV: id, lease, attempts and reason, maximum.
var deadLetterScript = newScript(luaWebhooks + `
local id, most, dropped = ARGV[1], tonumber(ARGV[4]), 0
if not holds(id, ARGV[2]) then return -1 end
local text = redis.call('HGET', entries, id)
remove(id)
redis.call('HSET', letters, id, text .. ':' .. ARGV[3])
redis.call('ZADD', dead, now, id)
local many = redis.call('ZCARD', dead) - most
for _, old in ipairs(many > 0 and redis.call('ZRANGE', dead, 0, many - 1) or {}) do
  redis.call('ZREM', dead, old)
  redis.call('HDEL', letters, old)
  dropped = dropped + 1
end
return dropped
`)

// deadScript reads dead letters, the newest first: id, time of death in ms, and text of each.
//
// ARGV: offset, maximum.
var deadScript = newScript(luaWebhooks + `
local found = {}
local all = redis.call('ZREVRANGE', dead, ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
for i = 1, #all, 2 do
  found[#found + 1] = all[i]
  found[#found + 1] = all[i + 1]
  found[#found + 1] = redis.call('HGET', letters, all[i]) or ''
end
return found
`)

// retryScript makes a dead letter an entry again. ARGV: id.
var retryScript = newScript(luaWebhooks + `
local id = ARGV[1]
local text = redis.call('HGET', letters, id)
if not text then return 0 end
redis.call('HDEL', letters, id)
redis.call('ZREM', dead, id)
add(id, string.match(text, '^[^:]*:[^:]*:[^:]*:[^:]*'))
redis.call('HSET', claims, id, '00 ') -- the second zero says that it was a dead letter
return 1
`)

// overdueScript returns open approvals that have expired.
//
// KEYS: open. ARGV: maximum.
var overdueScript = newScript(`
local t = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', t[1] * 1000 + math.floor(t[2] / 1000), 'LIMIT', 0, ARGV[1])
`)

// webhookEventsScript reads a tenant's events. It returns the next cursor, and id, kind and approval of each event.
//
// KEYS: events. ARGV: cursor or "", maximum, age in ms of the oldest event without a cursor.
var webhookEventsScript = newScript(`
local after = ARGV[1]
if after == '' then
  local t = redis.call('TIME')
  after = string.format('%.0f-0', t[1] * 1000 + math.floor(t[2] / 1000) - tonumber(ARGV[3]))
end
local found = {}
for _, e in ipairs(redis.call('XRANGE', KEYS[1], '(' .. after, '+', 'COUNT', ARGV[2])) do
  after = e[1]
  found[#found + 1] = e[1]
  found[#found + 1] = e[2][2]
  found[#found + 1] = e[2][4]
end
return {after, found}
`)
