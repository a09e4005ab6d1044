-- Reads part of a list. It returns the cursor of the next part, and the approvals that match. It ends at about 1 MiB.
--
-- ARGV: cursor, maximum, entries to visit, order, state or "", text to find in lower case or "", fields and values to
-- match.

-- include approvals

local after, most, scan, order = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local state, text = ARGV[9], ARGV[10]

-- ranked returns the entries of a sorted set of ids behind the cursor, as SCORE:ID, and whether there may be more.
local function ranked(set)
  local score, last = string.match(after, '^(%d+):(.*)$')
  local first = 0
  if score then
    -- An answer moves an entry. Its place counts while it has the score of the cursor.
    local place = redis.call('ZSCORE', set, last)
    if place and string.format('%.0f', tonumber(place)) == score then
      first = redis.call('ZRANK', set, last) + 1
    else
      first = redis.call('ZCOUNT', set, '-inf', '(' .. score)
    end
  end
  while true do
    local got = redis.call('ZRANGE', set, first, first + scan - 1, 'WITHSCORES')
    local found = {}
    for i = 1, #got, 2 do
      local at = string.format('%.0f', tonumber(got[i + 1]))
      if at ~= score or got[i] > last then found[#found + 1] = at .. ':' .. got[i] end
    end
    local more = #got == 2 * scan
    if #found > 0 or not more then return found, more end
    first = first + scan
  end
end

local set = index
if order == 'expires' then set = open end
if order == 'oldest' and state == 'pending' then set = base .. 'pending' end
local entries, more
if set ~= index then
  entries, more = ranked(set)
elseif order == 'oldest' then
  entries = redis.call('ZREVRANGEBYLEX', index, after == '' and '+' or '(' .. after, '-', 'LIMIT', 0, scan)
else
  entries = redis.call('ZRANGEBYLEX', index, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, scan)
end
if more == nil then more = #entries == scan end

-- lower replaces the letters A to Z alone: string.lower of other Luas knows more.
local function lower(value) return (string.gsub(value, '[A-Z]', string.lower)) end

-- has reports whether a field of a record that names its call has the text.
local function has(record)
  if text == '' then return true end
  local fields = redis.call('HMGET', record, 'user', 'agent', 'capability', 'tool', 'request', 'session', 'description')
  for _, value in ipairs(fields) do
    if value and string.find(lower(value), text, 1, true) then return true end
  end
  return false
end

local found, bytes = {}, 0
for at, entry in ipairs(entries) do
  local id = string.match(entry, ':(.*)$') or ''
  local r = find(id)
  local fits = r and (state == '' or state == r.state)
  if not r then redis.pcall('ZREM', set, set == index and entry or id) end
  for i = 11, #ARGV, 2 do
    fits = fits and redis.call('HGET', named('record', r.id), ARGV[i]) == ARGV[i + 1]
  end
  if fits and (text == lower(r.id) or has(named('record', r.id))) then
    local fields = whole(r)
    for _, v in ipairs(fields) do bytes = bytes + #v end
    found[#found + 1] = fields
  end
  if #found >= most or bytes > 1048576 then
    if at == #entries and not more then entry = '' end
    return answer(entry, found)
  end
end
return answer(more and entries[#entries] or '', found)
