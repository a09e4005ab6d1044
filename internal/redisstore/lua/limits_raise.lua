-- Records uses of one tenant's limits. The first key has the uses that have been near their limit. The others have a
-- day each. The arguments are the lifetime of the keys (ms), the most limits of a key, the tenths of a quota from which
-- on it is near its limit, and for each use its day's key, the limit, the use, its maximum, and the period of a quota
-- or 0. The answer has the numbers, from 0, of the uses that are near for the first time in their period, or with
-- a greater maximum than before. A near use has its period, its maximum, the use, and the greatest maximum with which
-- it was near. Uses of an earlier period than that change nothing.

local function decimal(n) return string.format('%.0f', n) end

local ttl, room, tenths = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local first = {}
for i = 4, #ARGV, 5 do
  local key, field, used, most = KEYS[tonumber(ARGV[i])], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local period = ARGV[i + 4]
  local had = redis.call('HGET', key, field)
  if had or redis.call('HLEN', key) < room then
    local before = tonumber(string.match(had or '', '^(%d+) ') or '') or 0
    redis.call('HSET', key, field, decimal(math.max(used, before)) .. ' ' .. decimal(most))
    redis.call('PEXPIRE', key, ttl)
  end
  if period ~= '0' and used * 10 >= most * tenths then
    local stored = redis.call('HGET', KEYS[1], field)
    local its, limit, before, noticed = string.match(stored or '', '^(%d+) (%d+) (%d+) (%d+)$')
    its, noticed = tonumber(its or '0'), tonumber(noticed or '0')
    if its < tonumber(period) then noticed = 0 end
    if its <= tonumber(period) then
      if most > noticed then table.insert(first, (i - 4) / 5) end
      if its == tonumber(period) and tonumber(limit) == most then used = math.max(used, tonumber(before)) end
      if not stored and redis.call('HLEN', KEYS[1]) >= room then redis.call('DEL', KEYS[1]) end
      redis.call('HSET', KEYS[1], field, period .. ' ' .. decimal(most) .. ' ' .. decimal(used) .. ' '
        .. decimal(math.max(most, noticed)))
      redis.call('PEXPIRE', KEYS[1], ttl)
    end
  end
end
return first
