-- Ends the wait of an approval. ARGV: id.

-- include approvals

local id = ARGV[5]
if redis.call('ZREM', base .. 'escalate', id) == 0 then return answer('no') end
local r = find(id)
if not r or r.state ~= 'pending' then return answer('no') end
tell('escalated', id)
return answer('escalated')
