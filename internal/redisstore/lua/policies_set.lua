-- Sets or, without a verdict, deletes a rule, and reports whether it existed.
--
-- KEYS: rules, names, about. ARGV: field, verdict, by, maximum of rules, signature or "", end in ms or "0".

-- include now

local rules, names, about, field = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local old = redis.call('HGET', rules, field)
local was = old and 1 or 0
if ARGV[2] == '' then
  redis.call('HDEL', rules, field)
  redis.call('ZREM', names, field)
  redis.call('SREM', about, field)
  return was
end
if was == 0 and redis.call('HLEN', rules) >= tonumber(ARGV[4]) then return -1 end
local at = decimal(now)
local by = ''
if ARGV[3] ~= '' then by = ',"by":' .. cjson.encode(ARGV[3]) end
if ARGV[5] ~= '' then by = by .. ',"seal":"' .. ARGV[5] .. '"' end
if ARGV[6] ~= '0' then by = by .. ',"until":' .. ARGV[6] end
local since = old and (string.match(old, ',"since":(%d+)}$') or string.match(old, ',"at":(%d+)}$'))
since = since and ',"since":' .. since or ''
redis.call('SADD', about, field)
redis.call('ZADD', names, 0, field)
redis.call('HSET', rules, field, '{"verdict":"' .. ARGV[2] .. '"' .. by .. ',"at":' .. at .. since .. '}')
return was
