-- Returns the version of the login of a fleet, its value and its challenge, each false if there is none for the bond.
--
-- KEYS: login. ARGV: bond.

local held = redis.pcall('HMGET', KEYS[1], 'bond', 'version', 'value', 'challenged', 'challenge')
if held.err then
  redis.call('DEL', KEYS[1])
  held = {}
end
local login, challenge = held[1] == ARGV[1], held[4] == ARGV[1]
return {login and held[2] or false, login and held[3] or false, challenge and held[5] or false}
