-- Reads part of the index, the newest entries first. It returns the cursor of the next part, and the approvals that
-- match. It ends at about 1 MiB.
--
-- ARGV: cursor, maximum, entries to visit, state or "", fields and values to match.

-- include approvals

local after, most, scan, state = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local entries = redis.call('ZRANGEBYLEX', index, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, scan)
local found, bytes = {}, 0
for at, entry in ipairs(entries) do
  local r = find(string.match(entry, ':(.*)$') or '')
  local fits = r and (state == '' or state == r.state)
  if not r then redis.pcall('ZREM', index, entry) end
  for i = 9, #ARGV, 2 do
    fits = fits and redis.call('HGET', named('record', r.id), ARGV[i]) == ARGV[i + 1]
  end
  if fits then
    local fields = whole(r)
    for _, v in ipairs(fields) do bytes = bytes + #v end
    found[#found + 1] = fields
  end
  if #found >= most or bytes > 1048576 then
    if at == #entries and #entries < scan then entry = '' end
    return answer(entry, found)
  end
end
return answer(#entries == scan and entries[scan] or '', found)
