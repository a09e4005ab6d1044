-- Reads one approval. ARGV: id.

-- include approvals

local r = find(ARGV[5])
if not r then return answer() end
return answer(whole(r))
