-- Returns calls, refusals, errors and calls that wait for approval of each minute.
--
-- KEYS: the minutes. ARGV: "some" or "all", the tenants of "some".

-- include minutes

local sums = {}
for _, key in ipairs(KEYS) do
  for _, kind in ipairs(kinds) do
    local sum = 0
    if ARGV[1] == 'all' then sum = tonumber(redis.call('HGET', key, kind .. '-') or 0) end
    for first = 2, #ARGV, 1000 do
      local fields = {}
      for i = first, math.min(first + 999, #ARGV) do fields[#fields + 1] = kind .. ':' .. ARGV[i] end
      for _, n in ipairs(redis.call('HMGET', key, unpack(fields))) do sum = sum + tonumber(n or 0) end
    end
    sums[#sums + 1] = sum
  end
end
return sums
