-- Writes and publishes observations.
--
-- KEYS: shard. ARGV: channel, the beginning of the event, TTL in ms, and for each observation its field, the age of its
-- state in ms, and the rest, or nothing to delete it.

-- include health
-- include version

must(KEYS[1], 'hash')
local previous = tonumber(redis.call('HGET', KEYS[1], 'v') or '')
if not previous then
  redis.call('DEL', KEYS[1])
  previous = 0
end
local version = nextVersion(previous)
local notice = {ARGV[2] .. ' ' .. version .. ' ' .. decimal(previous)}
for i = 4, #ARGV, 3 do
  local observation = ''
  if ARGV[i + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    observation = decimal(now - ARGV[i + 1]) .. ' ' .. decimal(now) .. ' ' .. ARGV[i + 2]
    redis.call('HSET', KEYS[1], ARGV[i], observation)
  end
  notice[#notice + 1] = ARGV[i]
  notice[#notice + 1] = observation
end
redis.call('HSET', KEYS[1], 'v', version)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[1], table.concat(notice, '\n'))
return 1
