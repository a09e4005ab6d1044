-- What all scripts of approvals share. All keys of a tenant have one hash tag, so the scripts compose the names of
-- further keys.
--
-- KEYS: index, open, events. ARGV: prefix of the tenant's keys, channel, tenant as in messages, ms for which an
-- approval can be read after its end. All times are in ms. Every answer begins with the number of approvals that were
-- found to have expired, and of malformed values.
--
-- Commands that only tidy up or publish use pcall: their failure must not prevent the answer.

-- include now
-- include past

local index, open, events = KEYS[1], KEYS[2], KEYS[3]
local base, channel, tenant, keep = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local expired, bad = 0, 0
local states = {pending = true, approved = true, denied = true, expired = true, used = true}
local function named(kind, name) return base .. kind .. ':' .. name end
local function ok(answer) return type(answer) ~= 'table' or not answer.err end
local function keep_past(...) if not pcall(past, base, ...) then bad = bad + 1 end end
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
    local was = r.state
    r.state = 'expired'
    if ok(redis.pcall('HSET', named('record', r.id), 'state', 'expired')) then
      if was == 'pending' then keep_past(r.id, 'expired', r.expires, {}) end
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
local function sweep()
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', now, 'LIMIT', 0, 100)) do
    local r = find(each)
    if not r or r.state ~= 'pending' and r.state ~= 'approved' then redis.pcall('ZREM', open, each) end
  end
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
