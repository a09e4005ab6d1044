-- Is Lua that returns the version after another one. It is greater than all before, also than those that
-- a failover has undone: replicas may have read them.

local function nextVersion(last)
  local t = redis.call('TIME')
  return string.format('%.0f', math.max((tonumber(last or '') or 0) + 1, t[1] * 1000000 + t[2]))
end
