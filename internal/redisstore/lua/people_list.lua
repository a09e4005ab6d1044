-- Returns the texts of the sessions that have not ended. KEYS: sessions, the same by their end.

-- include now

local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. decimal(now), '+inf')
local answer = {}
for _, id in ipairs(ids) do
  local text = redis.call('HGET', KEYS[1], id)
  if text then table.insert(answer, text) end
end
return answer
