-- Adds points to the points of the same series. A series that a step with too many of them does not have counts for
-- another one.
--
-- KEYS: steps. ARGV: maximum of series of a step, TTL of each step in ms, and any number of: number of a key, series,
-- the other series, point.

-- include points

local most, at = tonumber(ARGV[1]), 1 + #KEYS
while at < #ARGV do
  count_point(KEYS[tonumber(ARGV[at + 1])], most, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
  at = at + 4
end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[1 + i]) end
return 1
