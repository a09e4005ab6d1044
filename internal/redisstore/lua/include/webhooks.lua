-- What all scripts of the outbox of webhooks share. An entry is in due, entries and claims; a dead letter is in dead
-- and letters. The text of an entry never changes.
--
-- KEYS: cursors, due, entries, claims, dead, letters. Times are in ms.

-- include now

local cursors, due, entries, claims, dead, letters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local function remove(id)
  redis.call('ZREM', due, id)
  redis.call('HDEL', entries, id)
  redis.call('HDEL', claims, id)
end
local function add(id, text)
  redis.call('HSET', entries, id, text)
  redis.call('HSET', claims, id, '0 ')
  -- The oldest one is the first.
  redis.call('ZADD', due, math.min(now, tonumber(string.match(text, '%d+$'))), id)
end
local function holds(id, lease)
  return string.match(redis.call('HGET', claims, id) or '', '^%d+ (.+)$') == lease
end
