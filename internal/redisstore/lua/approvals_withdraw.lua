-- Ends a pending approval as if it had expired. ARGV: id.

-- include approvals

local r = find(ARGV[5])
if r and r.state == 'pending' then
  redis.call('HSET', named('record', r.id), 'state', 'expired', 'expires', decimal(now))
  keep_past(r.id, 'withdrawn', now, {})
  close(r)
  tell('expired', r.id)
end
return answer()
