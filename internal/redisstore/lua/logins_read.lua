-- Returns the version of the login of a fleet, its value and its challenge, each false if there is none. It deletes
-- what is stored for another bond.
--
-- KEYS: login. ARGV: bond.

local held = redis.pcall('HMGET', KEYS[1], 'bond', 'version', 'value', 'challenge')
if held.err or held[1] and held[1] ~= ARGV[1] then
  redis.call('DEL', KEYS[1])
  held = {}
end
return {held[2] or false, held[3] or false, held[4] or false}
