-- Returns the next cursor, whether events were lost, and events with their approvals.
--
-- ARGV: cursor ("": the last event), maximum.

-- include approvals

local after, most = ARGV[5], ARGV[6]
local last = redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)
last = last[1] and last[1][1] or '0-0'
if after == '' then return answer(last, 0, {}) end
local missed = 0
if after ~= '0' and after ~= '0-0' then
  if #redis.call('XRANGE', events, after, after) == 0 then missed = 1 end
end
local found, bytes = {}, 0
for _, e in ipairs(redis.call('XRANGE', events, '(' .. after, '+', 'COUNT', most)) do
  local kind, id = e[2][2], e[2][4]
  local r = find(id)
  local fields = r and whole(r) or {}
  for _, v in ipairs(fields) do bytes = bytes + #v end
  found[#found + 1] = {e[1], kind, id, fields}
  after = e[1]
  if bytes > 1048576 then break end
end
if missed == 1 and #found == 0 then after = last end
return answer(after, missed, found)
