-- Exchanges the drains and the open calls of replicas. It writes with pcall, since a Redis without free memory can
-- still be read. Silent replicas are looked for once a second, because a loop over a thousand of them takes Redis half
-- a millisecond.
--
-- KEYS: backends, calls, state, ended, by. ARGV: channel, a new epoch, replica, known epoch; lines of fields whose
-- drain begins, and of those whose drain ends; lines of start and field of known drains; lines of fields that the
-- replica has; its calls; "1" if it leaves; maximum of drains; lines of start or "-", field and name of the operator.

-- include now

local backends, calls, state, ended, by = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, new, replica, known_epoch, begun, over = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local held, known, open, leaves, most, names = ARGV[7], ARGV[8], ARGV[9], ARGV[10] == '1', tonumber(ARGV[11]), ARGV[12]
local written, full, changed = 1, 0, false
local function write(...)
  local r = redis.pcall(...)
  if type(r) == 'table' and r.err then written = 0; return false end
  return r
end
local epoch = redis.call('HGET', state, 'epoch')
if not epoch then
  epoch = new
  write('HSET', state, 'epoch', epoch)
end
local function add(field, since)
  if redis.call('HEXISTS', backends, field) == 1 then return end
  if redis.call('HLEN', backends) >= most then full = 1; return end
  if write('HSET', backends, field, since .. ' ' .. now) then changed = true end
end
if known_epoch ~= '' and known_epoch ~= epoch then
  for since, field in string.gmatch(held, '(%d+) ([^\n]+)\n') do
    if not redis.call('ZSCORE', ended, field) then add(field, since) end
  end
end
for field in string.gmatch(begun, '([^\n]+)\n') do
  write('ZREM', ended, field)
  add(field, now)
end
for field in string.gmatch(over, '([^\n]+)\n') do
  if write('HDEL', backends, field) == 1 then changed = true end
  write('ZADD', ended, now, field)
end
write('ZREMRANGEBYSCORE', ended, '-inf', now - 3600000)
write('ZREMRANGEBYRANK', ended, 0, -most - 1)
for field in string.gmatch(known, '([^\n]+)\n') do
  local since, seen = string.match(redis.call('HGET', backends, field) or '', '^(%d+) (%d+)$')
  if since and now - tonumber(seen) > 60000 then write('HSET', backends, field, since .. ' ' .. now) end
end
local all = redis.call('HGETALL', backends)
for i = 1, #all, 2 do
  local seen = string.match(all[i + 1], '^%d+ (%d+)$')
  if seen and now - tonumber(seen) > 3600000 then
    if write('HDEL', backends, all[i]) == 1 then changed = true end
  end
end
if leaves then write('HDEL', calls, replica) else write('HSET', calls, replica, now .. '\n' .. open) end
local swept = tonumber(redis.call('HGET', state, 'swept') or '')
if not swept or now < swept or now - swept >= 1000 then
  all = redis.call('HGETALL', calls)
  for i = 1, #all, 2 do
    local at = string.match(all[i + 1], '^(%d+)\n')
    if not at or now - tonumber(at) > 15000 then write('HDEL', calls, all[i]) end
  end
  write('HSET', state, 'swept', decimal(now))
end
if changed then redis.call('PUBLISH', channel, '') end
local drained = redis.call('HGETALL', backends)
local since_of = {}
for i = 1, #drained, 2 do since_of[drained[i]] = string.match(drained[i + 1], '^%d+') end
-- A name holds for the drain that began at its time. Replicas of earlier versions begin and end drains without names.
for since, field, who in string.gmatch(names, '(%S+) (%S+ %S+) (%S+)\n') do
  local at = since_of[field]
  if at and (since == '-' or since == at) and string.match(redis.call('HGET', by, field) or '', '^%d+') ~= at then
    write('HSET', by, field, at .. ' ' .. who)
  end
end
local named = {}
all = redis.call('HGETALL', by)
for i = 1, #all, 2 do
  local at, who = string.match(all[i + 1], '^(%d+) (%S+)$')
  if at and at == since_of[all[i]] then
    named[#named + 1] = all[i]
    named[#named + 1] = who
  else write('HDEL', by, all[i]) end
end
local counted = {}
if #drained > 0 then counted = redis.call('HGETALL', calls) end
return {epoch, written, full, drained, counted, named}
