package redisstore

// webhooksLua begins all scripts of the outbox of webhooks. An entry is in all of due, entries and
// claims, a dead letter in dead and letters; what an entry says never changes.
//
// KEYS: cursors, due, entries, claims, dead, letters. now and all times are in ms.
const webhooksLua = `
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

// putScript moves a tenant's cursor and adds events, unless the cursor has moved. It answers
// with how many had no place, or -1.
//
// ARGV: tenant, cursor before or "", after, most, ids and texts.
var putScript = newScript(webhooksLua + `
local tenant, before, after, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if (redis.call('HGET', cursors, tenant) or '') ~= before then return -1 end
local room, dropped = most - redis.call('ZCARD', due), 0
for i = 5, #ARGV, 2 do
  if room > 0 then
    add(ARGV[i], ARGV[i + 1])
    room = room - 1
  else
    dropped = dropped + 1
  end
end
redis.call('HSET', cursors, tenant, after)
return dropped
`)

// claimScript takes what is due. It answers with how many wait, how many are dead, how
// many could not be understood, ms until the next is due or -1, and for each that is taken its
// id, text and attempts.
//
// ARGV: lease, most, ms that it holds.
var claimScript = newScript(webhooksLua + `
local lease, most, holds = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local bad, taken = 0, {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, most)) do
  local text = redis.call('HGET', entries, id)
  local tries = string.match(redis.call('HGET', claims, id) or '', '^(%d+) ')
  if text and tries then
    tries = tonumber(tries) + 1
    redis.call('HSET', claims, id, tries .. ' ' .. lease)
    redis.call('ZADD', due, now + holds, id)
    taken[#taken + 1] = id
    taken[#taken + 1] = text
    taken[#taken + 1] = tries
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

// doneScript takes an entry out. ARGV: id.
var doneScript = newScript(webhooksLua + `
remove(ARGV[1])
return 1
`)

// laterScript puts an entry back. ARGV: id, lease, attempts, ms to wait.
var laterScript = newScript(webhooksLua + `
local id = ARGV[1]
if not holds(id, ARGV[2]) then return 0 end
redis.call('HSET', claims, id, ARGV[3] .. ' ')
redis.call('ZADD', due, now + tonumber(ARGV[4]), id)
return 1
`)

// buryScript makes an entry a dead letter. It answers with how many of the oldest had to go, or -1.
//
// ARGV: id, lease, what there is to say of it, most.
var buryScript = newScript(webhooksLua + `
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

// deadScript reads letters, the newest first: id, ms when it died and text of each.
//
// ARGV: how many are left out, most.
var deadScript = newScript(webhooksLua + `
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
var retryScript = newScript(webhooksLua + `
local id = ARGV[1]
local text = redis.call('HGET', letters, id)
if not text then return 0 end
redis.call('HDEL', letters, id)
redis.call('ZREM', dead, id)
add(id, string.match(text, '^[^:]*:[^:]*:[^:]*:[^:]*'))
return 1
`)

// overdueScript finds approvals that are open although their time is over.
//
// KEYS: open. ARGV: most.
var overdueScript = newScript(`
local t = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', t[1] * 1000 + math.floor(t[2] / 1000), 'LIMIT', 0, ARGV[1])
`)

// webhookEventsScript reads a tenant's events. It answers with the cursor after them, and
// the id, kind and approval of each.
//
// KEYS: events. ARGV: cursor or "", most, ms that are looked back without one.
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
