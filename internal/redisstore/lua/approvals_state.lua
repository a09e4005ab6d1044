-- Returns the state of an approval, and its remaining time in ms. ARGV: id.

-- include approvals

local r = find(ARGV[5])
if not r then return answer() end
return answer(r.state, math.max(r.expires - now, 0))
