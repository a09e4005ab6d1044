-- Returns the epoch, the version, and the revocations after a version. If the epoch is another one, it returns all.
--
-- KEYS: state, revocations by version. ARGV: a new epoch, the known epoch, the known version.

local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then
  epoch = ARGV[1]
  redis.pcall('HSET', KEYS[1], 'epoch', epoch) -- a Redis without free memory can still be read
end
local version = redis.call('HGET', KEYS[1], 'version') or '0'
local after = '(' .. ARGV[3]
if epoch ~= ARGV[2] or tonumber(version) < tonumber(ARGV[3]) then after = '-inf' end
local answer = {epoch, version}
if after == '-inf' or tonumber(version) > tonumber(ARGV[3]) then
  for _, text in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], after, '+inf')) do
    table.insert(answer, text)
  end
end
return answer
