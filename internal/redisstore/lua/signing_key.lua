-- Returns the stored key. It stores a new one if there is none, or if the stored one is to be replaced. ARGV: the new
-- key, the stored one to be replaced or "".

local held = redis.call('GET', KEYS[1])
if held and (ARGV[2] == '' or held ~= ARGV[2]) then return held end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
