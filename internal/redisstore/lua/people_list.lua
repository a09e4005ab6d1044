-- Returns the texts of the sessions that have not ended.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', now), '+inf')
local answer = {}
for _, id in ipairs(ids) do
  local text = redis.call('HGET', KEYS[1], id)
  if text then table.insert(answer, text) end
end
return answer
