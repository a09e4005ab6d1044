-- Stores revocations by their versions, and removes those whose sessions have ended by themselves. One of all sessions
-- of a person replaces an earlier one. It returns 1, or 0 if there are too many, or too many of one owner.
--
-- KEYS: state, revocations by version, the same by their end, issued sessions, the same by their end, revocations by
-- the name of the person, owners by revocation, numbers of revocations by owner. ARGV: a new epoch, the channel, the
-- bound; then for each revocation its end in ms, its text, the id of its session or "", the name or "", and the owner
-- or "".

-- include journal

local names, owners, shares, most = KEYS[6], KEYS[7], KEYS[8], tonumber(ARGV[3])
local function remove(old)
  redis.call('ZREM', KEYS[2], old)
  redis.call('ZREM', KEYS[3], old)
  local name = string.match(old, '^name %d+ %d+ (.*)$')
  if name and redis.call('HGET', names, name) == old then redis.call('HDEL', names, name) end
  local owner = redis.call('HGET', owners, old)
  if owner then
    redis.call('HDEL', owners, old)
    if redis.call('HINCRBY', shares, owner, -1) <= 0 then redis.call('HDEL', shares, owner) end
  end
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1000)) do remove(old) end
local people = redis.call('HLEN', names)
local room, roomForNames, own = most - (redis.call('ZCARD', KEYS[2]) - people), most - people, {}
for i = 4, #ARGV, 5 do
  local name, owner = ARGV[i + 3], ARGV[i + 4]
  if name ~= '' then
    if redis.call('HEXISTS', names, name) == 0 then roomForNames = roomForNames - 1 end
  else
    if owner ~= '' then
      own[owner] = own[owner] or tonumber(redis.call('HGET', shares, owner) or '0')
      if own[owner] >= 4 * room then return 0 end
      own[owner] = own[owner] + 1
    end
    room = room - 1
  end
end
if room < 0 or roomForNames < 0 then return 0 end
for i = 4, #ARGV, 5 do
  local text, session, name, owner = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local version = record(KEYS[1], ARGV[1])
  if name ~= '' then
    local old = redis.call('HGET', names, name)
    local before = old and string.match(old, '^name %d+ (%d+) ')
    if not before or tonumber(before) <= tonumber(string.match(text, '^name %d+ (%d+) ')) then
      if old then remove(old) end
      redis.call('HSET', names, name, text)
    end
  elseif owner ~= '' and redis.call('HSETNX', owners, text, owner) == 1 then
    redis.call('HINCRBY', shares, owner, 1)
  end
  redis.call('ZADD', KEYS[2], version, text)
  redis.call('ZADD', KEYS[3], ARGV[i], text)
  if session ~= '' then
    redis.call('HDEL', KEYS[4], session)
    redis.call('ZREM', KEYS[5], session)
  end
end
redis.call('PUBLISH', ARGV[2], '')
return 1
