-- Writes observations, and publishes them unless notices wait. Returns for each shard with changes that still wait its
-- number, the version of its last notice, and the ms after which its version is to be read, which publishes them.
--
-- KEYS: for each shard its page, the changes that wait, and paid. ARGV: channel, the beginning of the event, TTL in ms,
-- and for each shard its number, the number of its observations, and for each of these its field, the age of its state
-- in ms, and the rest, or nothing to delete it.

-- include health_notices

local waits, arg = {}, 4
for key = 1, #KEYS, 3 do
  local page, waiting, paid, shard = KEYS[key], KEYS[key + 1], KEYS[key + 2], ARGV[arg]
  must(page, 'hash') must(waiting, 'set') must(paid, 'string')
  if not tonumber(redis.call('HGET', page, 'v') or '') then redis.call('DEL', page, waiting) end
  local alone, fields = redis.call('EXISTS', waiting) == 0, {}
  for _ = 1, tonumber(ARGV[arg + 1]) do
    local field, age, rest = ARGV[arg + 2], ARGV[arg + 3], ARGV[arg + 4]
    if rest == '' then
      redis.call('HDEL', page, field)
    else
      redis.call('HSET', page, field, decimal(now - age) .. ' ' .. decimal(now) .. ' ' .. rest)
    end
    fields[#fields + 1], arg = field, arg + 3
  end
  arg = arg + 2
  redis.call('SADD', waiting, unpack(fields))
  redis.call('PEXPIRE', waiting, ARGV[3])
  local wait = notify(page, waiting, paid, ARGV[1], ARGV[2] .. ' ' .. shard, alone)
  redis.call('PEXPIRE', page, ARGV[3])
  if wait > 0 then
    for _, value in ipairs({shard, redis.call('HGET', page, 'v'), decimal(wait)}) do waits[#waits + 1] = value end
  end
end
return waits
