-- Records uses of one tenant's limits. The first key has the uses that have been near their limit. The others have a
-- day each. The arguments are the lifetime of the keys (ms), the most limits of a key, the tenths of a quota from which
-- on it is near its limit, and for each use its day's key, the limit, the use, its maximum, and the period of a quota
-- or 0. The answer has the numbers, from 0, of the uses that are near for the first time in their period and with
-- their maximum.

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
    local its, limit, before = string.match(stored or '', '^(%d+) (%d+) (%d+)')
    if its ~= period or tonumber(limit) ~= most then
      table.insert(first, (i - 4) / 5)
      before = 0
    end
    if not stored and redis.call('HLEN', KEYS[1]) >= room then redis.call('DEL', KEYS[1]) end
    redis.call('HSET', KEYS[1], field, period .. ' ' .. decimal(most) .. ' '
      .. decimal(math.max(used, tonumber(before))))
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
end
return first
