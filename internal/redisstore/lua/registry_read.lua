-- Returns the version, and unless that is the known one, all leases and the fields that have ended lately.
--
-- It first ends leases that are over, at most twice a second. It records the time of that, and ends none if it cannot
-- write: then backends could not have renewed theirs either. If the last record is old or missing, leases get their
-- full time again.
--
-- ARGV: channel, epoch, known version, silence after which renewals were impossible, ms.

-- include manifests

local since, silence = ARGV[3], tonumber(ARGV[4])
local function sweep()
  local last = tonumber(redis.call('HGET', state, 'swept') or '')
  if last and now >= last and now - last < 500 then return end
  local noted = redis.pcall('HSET', state, 'swept', now)
  if type(noted) == 'table' and noted.err then return end
  local unavailable = not last or now - last > silence
  if redis.call('HLEN', leases) ~= redis.call('ZCARD', ends) then
    for _, field in ipairs(redis.call('HKEYS', leases)) do
      if not redis.call('ZSCORE', ends, field) then redis.call('ZADD', ends, now + 3600000, field) end
    end
  end
  local over = false
  for _, field in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now)) do
    local value = redis.call('HGET', leases, field)
    local ttl = value and tonumber(string.match(value, '^[^\n]*\n(%d+)\n') or '')
    if unavailable and ttl then
      redis.call('ZADD', ends, now + ttl, field)
    else
      close(field)
      over = true
    end
  end
  redis.call('ZREMRANGEBYSCORE', ended, '-inf', now - 120000)
  local tidied = tonumber(redis.call('HGET', state, 'tidied') or '')
  if not tidied or now < tidied or now - tidied > 60000 then
    redis.call('HSET', state, 'tidied', now)
    tidy()
  end
  if over then changed() end
end
sweep()
local v = redis.call('HMGET', state, 'epoch', 'version')
local version = v[1] and v[2] and v[1] .. ':' .. v[2] or ''
if version ~= '' and version == since then return {version} end
return {version, redis.call('HGETALL', leases), redis.call('ZRANGE', ended, 0, -1)}
