package redisstore

// luaApprovals begins all scripts of approvals. All keys of a tenant have one hash tag, so the scripts compose the
// names of further keys.
//
// KEYS: index, open, events. ARGV: prefix of the tenant's keys, channel, tenant as in messages, ms for which an
// approval can be read after its end. All times are in ms. Every answer begins with the number of approvals that were
// found to have expired, and of malformed values.
//
// Commands that only tidy up or publish use pcall: their failure must not prevent the answer.
const luaApprovals = `
local index, open, events = KEYS[1], KEYS[2], KEYS[3]
local base, channel, tenant, keep = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local expired, bad = 0, 0
local states = {pending = true, approved = true, denied = true, expired = true, used = true}
local function text(n) return string.format('%.0f', n) end
local function named(kind, name) return base .. kind .. ':' .. name end
local function ok(answer) return type(answer) ~= 'table' or not answer.err end
local function tell(kind, id, session)
  redis.pcall('XADD', events, 'MAXLEN', '~', '10000', '*', 'kind', kind, 'id', id)
  redis.pcall('PEXPIRE', events, 86400000)
  redis.pcall('PUBLISH', channel, tenant .. ':' .. id .. ':' .. kind .. ':' .. (session or ''))
end
local function load(id)
  local v = redis.pcall('HMGET', named('record', id), 'state', 'expires', 'call')
  if not ok(v) then bad = bad + 1; return nil end
  if not v[1] and not v[2] and not v[3] then return nil end
  local expires = string.match(v[2] or '', '^%d+$') and tonumber(v[2])
  if not states[v[1] or ''] or not expires or not v[3] then bad = bad + 1; return nil end
  return {id = id, state = v[1], expires = expires, call = v[3]}
end
local function close(r)
  redis.pcall('ZREM', base .. 'pending', r.id)
  redis.pcall('ZREM', open, r.id)
  local call = named('call', r.call)
  if redis.pcall('GET', call) == r.id then redis.pcall('DEL', call) end
end
local function age(r)
  if (r.state == 'pending' or r.state == 'approved') and now >= r.expires then
    r.state = 'expired'
    if ok(redis.pcall('HSET', named('record', r.id), 'state', 'expired')) then
      expired = expired + 1
      close(r)
      tell('expired', r.id)
    end
  end
  return r
end
local function find(id)
  local r = load(id)
  return r and age(r)
end
local function whole(r)
  local fields = redis.call('HGETALL', named('record', r.id))
  fields[#fields + 1] = 'state'
  fields[#fields + 1] = r.state
  local given = redis.pcall('HGETALL', named('answers', r.id))
  if ok(given) and #given > 0 then
    local all = {}
    for i = 2, #given, 2 do all[#all + 1] = given[i] end
    fields[#fields + 1] = 'answers'
    fields[#fields + 1] = table.concat(all, '\n')
  end
  return fields
end
local function answer(...) return {expired, bad, ...} end
`

// createApprovalScript creates an approval unless there is one for the same call.
//
// ARGV: id, digest of the call, digest of the session's calls or "", TTL, maximum of open approvals, time until it
// escalates or 0, fields and values.
var createApprovalScript = newScript(luaApprovals + `
local id, call, session, ttl, most = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
for _, each in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', now, 'LIMIT', 0, 100)) do
  local r = find(each)
  if not r or r.state ~= 'pending' and r.state ~= 'approved' then redis.pcall('ZREM', open, each) end
end
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
redis.call('HSET', record, 'state', 'pending', 'created', text(now), 'expires', text(now + ttl),
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
`)

// redeemScript redeems an approved approval. It is idempotent for one token.
//
// ARGV: id, token, fields and values that must be equal.
var redeemScript = newScript(luaApprovals + `
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
redis.call('HSET', record, 'state', 'used', 'token', token, 'changed', text(now))
close(r)
tell('used', id)
return answer('approved', trace, whole(r))
`)

// releaseScript undoes a redemption. It is idempotent for one token.
//
// ARGV: id, token.
var releaseScript = newScript(luaApprovals + `
local id, token = ARGV[5], ARGV[6]
local record = named('record', id)
local r = load(id)
if not r then return answer('no') end
if r.state ~= 'used' then
  if redis.call('HGET', record, 'released') == token then return answer('released') end
  return answer('no')
end
if redis.call('HGET', record, 'token') ~= token then return answer('no') end
redis.call('HSET', record, 'state', 'approved', 'released', token, 'changed', text(now))
redis.call('HDEL', record, 'token')
r.state = 'approved'
if now >= r.expires then
  age(r)
else
  redis.call('ZADD', open, r.expires, id)
  if redis.call('PTTL', open) < 0 then redis.call('PEXPIRE', open, r.expires - now + keep) end
  redis.call('SET', named('call', r.call), id, 'NX', 'PX', r.expires - now)
  tell('released', id)
end
return answer('released')
`)

// answerScript records an answer to a pending approval, and if it is the final one, answers the approval. It is
// idempotent for one token.
//
// ARGV: id, token, state, TTL, TTL of an answer for the session or "", its signature or "", the signature that the
// record must have or "", end of the answer or "", "1" for the final answer or "", person, the person's answer or "",
// number of people who have answered before or -1, these people, fields and values.
var answerScript = newScript(luaApprovals + `
local id, token, state, ttl, lasting = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]
local r = find(id)
if not r then return answer('unknown') end
local seal, expected, expires = ARGV[10], ARGV[11], ARGV[12]
local final, person, given, before = ARGV[13], ARGV[14], ARGV[15], tonumber(ARGV[16])
local record, answers = named('record', id), named('answers', id)
local was = redis.call('HMGET', record, 'answer', 'grant', 'seal')
if expected ~= '' and was[3] ~= expected then return answer('unknown') end
local mine = redis.call('HGET', answers, person)
local again = was[1] == token or mine and string.sub(mine, 1, #token + 1) == token .. ' '
if r.state ~= 'pending' then return answer(again and 'answered' or 'late', whole(r)) end
if again then return answer('recorded', whole(r)) end
local session = was[2] or ''
if lasting ~= '' and session == '' then return answer('sessionless', whole(r)) end
if before >= 0 then
  local same = redis.call('HLEN', answers) == before
  for i = 17, 16 + before do same = same and redis.call('HGET', answers, ARGV[i]) end
  if not same then return answer('stale', whole(r)) end
end
if given ~= '' then
  redis.call('HSET', answers, person, token .. ' ' .. text(now) .. ' ' .. given)
  redis.call('PEXPIRE', answers, math.max(ttl, r.expires - now) + keep)
end
if final == '' then
  tell('answered', id)
  return answer('recorded', whole(r))
end
redis.call('HSET', record, 'state', state, 'expires', expires ~= '' and expires or text(now + ttl),
  'answered', text(now), 'answer', token, unpack(ARGV, 17 + math.max(before, 0)))
redis.call('PEXPIRE', record, ttl + keep)
redis.pcall('PEXPIRE', answers, ttl + keep)
redis.pcall('ZREM', base .. 'pending', id)
redis.pcall('ZREM', base .. 'escalate', id)
redis.call('SET', named('call', r.call), id, 'PX', ttl)
if state == 'approved' then redis.call('ZADD', open, now + ttl, id) else redis.call('ZREM', open, id) end
if lasting ~= '' then
  local held = state .. ' ' .. id .. (seal ~= '' and ' ' .. seal or '')
  redis.call('SET', named('session', session), held, 'PX', lasting)
end
tell(state, id, lasting ~= '' and session)
return answer('answered', whole(load(id)))
`)

// withdrawApprovalScript ends a pending approval as if it had expired. ARGV: id.
var withdrawApprovalScript = newScript(luaApprovals + `
local r = find(ARGV[5])
if r and r.state == 'pending' then
  redis.call('HSET', named('record', r.id), 'state', 'expired', 'expires', text(now))
  close(r)
  tell('expired', r.id)
end
return answer()
`)

// getScript reads one approval. ARGV: id.
var getScript = newScript(luaApprovals + `
local r = find(ARGV[5])
if not r then return answer() end
return answer(whole(r))
`)

// pendingScript returns the number of pending approvals and the creation time of the oldest one, in ms. It first
// records some that have expired. base ends with a colon.
var pendingScript = newScript(luaApprovals + `
for _, each in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', now, 'LIMIT', 0, 100)) do
  local r = find(each)
  if not r or r.state ~= 'pending' and r.state ~= 'approved' then redis.pcall('ZREM', open, each) end
end
local pending = base .. 'pending'
local oldest = redis.call('ZRANGE', pending, 0, 0, 'WITHSCORES')
return answer(redis.call('ZCARD', pending), oldest[2] or '0')
`)

// stateScript returns the state of an approval, and its remaining time in ms. ARGV: id.
var stateScript = newScript(luaApprovals + `
local r = find(ARGV[5])
if not r then return answer() end
return answer(r.state, math.max(r.expires - now, 0))
`)

// listScript reads part of the index, the newest entries first. It returns the cursor of the next part, and the
// approvals that match. It ends at about 1 MiB.
//
// ARGV: cursor, maximum, entries to visit, state or "", fields and values to match.
var listScript = newScript(luaApprovals + `
local after, most, scan, state = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local entries = redis.call('ZRANGEBYLEX', index, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, scan)
local found, bytes = {}, 0
for at, entry in ipairs(entries) do
  local r = find(string.match(entry, ':(.*)$') or '')
  local fits = r and (state == '' or state == r.state)
  if not r then redis.pcall('ZREM', index, entry) end
  for i = 9, #ARGV, 2 do
    fits = fits and redis.call('HGET', named('record', r.id), ARGV[i]) == ARGV[i + 1]
  end
  if fits then
    local fields = whole(r)
    for _, v in ipairs(fields) do bytes = bytes + #v end
    found[#found + 1] = fields
  end
  if #found >= most or bytes > 1048576 then
    if at == #entries and #entries < scan then entry = '' end
    return answer(entry, found)
  end
end
return answer(#entries == scan and entries[scan] or '', found)
`)

// eventsScript returns the next cursor, whether events were lost, and events with their approvals.
//
// ARGV: cursor ("": the last event), maximum.
var eventsScript = newScript(luaApprovals + `
local after, most = ARGV[5], ARGV[6]
local last = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)
last = last[1] and last[1][1] or '0-0'
if after == '' then return answer(last, 0, {}) end
local missed = 0
if after ~= '0' and after ~= '0-0' then
  if #redis.call('XRANGE', events, after, after) == 0 then missed = 1 end
end
local found, bytes = {}, 0
for _, e in ipairs(redis.call('XRANGE', events, '(' .. after, '+', 'COUNT', most)) do
  local kind, id = e[2][2], e[2][4]
  local r = find(id)
  local fields = r and whole(r) or {}
  for _, v in ipairs(fields) do bytes = bytes + #v end
  found[#found + 1] = {e[1], kind, id, fields}
  after = e[1]
  if bytes > 1048576 then break end
end
if missed == 1 and #found == 0 then after = last end
return answer(after, missed, found)
`)
