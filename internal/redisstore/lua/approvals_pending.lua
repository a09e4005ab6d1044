-- Returns the number of pending approvals and the creation time of the oldest one, in ms. It first
-- records some that have expired. base ends with a colon.

-- include approvals

for _, each in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', now, 'LIMIT', 0, 100)) do
  local r = find(each)
  if not r or r.state ~= 'pending' and r.state ~= 'approved' then redis.pcall('ZREM', open, each) end
end
local pending = base .. 'pending'
local oldest = redis.call('ZRANGE', pending, 0, 0, 'WITHSCORES')
return answer(redis.call('ZCARD', pending), oldest[2] or '0')
