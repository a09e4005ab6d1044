-- Sets or deletes an object. It returns its new version, or a negative number: -1 there is another version, -2 there is
-- none to delete, -3 there are too many, or they are too large.
--
-- KEYS: objects, state, changes. ARGV: a new epoch, the channel, the field, its beginning that all objects of the
-- tenant have, the text or "" to delete it, the expected version or "", and the limits: objects and bytes of all, and
-- of a tenant.

-- include journal

local all, state, changes, field, text = KEYS[1], KEYS[2], KEYS[3], ARGV[3], ARGV[5]
local old = redis.call('HGET', all, field)
if ARGV[6] ~= '' and ARGV[6] ~= (old and string.match(old, '^%d+') or '') then return -1 end
if not old and text == '' then return -2 end
if text ~= '' then
  local n, bytes, own, own_bytes = 0, 0, 0, 0
  for _, name in ipairs(redis.call('HKEYS', all)) do
    if name ~= field then
      local size = redis.call('HSTRLEN', all, name)
      n, bytes = n + 1, bytes + size
      if string.sub(name, 1, #ARGV[4]) == ARGV[4] then own, own_bytes = own + 1, own_bytes + size end
    end
  end
  if n >= tonumber(ARGV[7]) or bytes + #text > tonumber(ARGV[8]) or own >= tonumber(ARGV[9])
    or own_bytes + #text > tonumber(ARGV[10]) then return -3 end
end
-- Deleted objects stay in the list of changes. With another epoch, replicas read everything.
if redis.call('ZCARD', changes) >= 4 * tonumber(ARGV[7]) then redis.call('DEL', changes, state) end
local version = record(state, ARGV[1])
redis.call('ZADD', changes, version, field)
if text == '' then redis.call('HDEL', all, field)
else redis.call('HSET', all, field, version .. ' ' .. decimal(now) .. ' ' .. text) end
redis.pcall('PUBLISH', ARGV[2], '')
return version
