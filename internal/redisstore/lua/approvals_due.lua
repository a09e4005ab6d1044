-- Returns pending approvals that are due, and the ms until there may be more, or -1 if there are no others.

-- include approvals

local escalate, found = base .. 'escalate', {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', escalate, '-inf', now, 'LIMIT', 0, 100)) do
  local r = find(id)
  if r and r.state == 'pending' then found[#found + 1] = whole(r) else redis.call('ZREM', escalate, id) end
end
local next = redis.call('ZRANGE', escalate, 0, 0, 'WITHSCORES')
return answer(next[2] and math.max(tonumber(next[2]) - now, 0) or -1, found)
