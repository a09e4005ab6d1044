-- Changes when an approval is due. ARGV: id, ms from now, or a negative number for never.

-- include approvals

local id, after, escalate = ARGV[5], tonumber(ARGV[6]), base .. 'escalate'
if after < 0 then
  redis.call('ZREM', escalate, id)
elseif redis.call('ZSCORE', escalate, id) then
  redis.call('ZADD', escalate, now + after, id)
end
return answer()
