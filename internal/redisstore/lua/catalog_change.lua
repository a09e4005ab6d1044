-- Writes one catalog.Change. It returns -1 if its lease has ended.
--
-- KEYS: state, changes, accepted, about, set, turns. ARGV: epoch, channel, capability, lease, sum, set, error, what was
-- left out, number of absent tools, these, and pairs of tool and hash. The accepted hash of an absent tool is kept, so
-- that no other tool can take its name unnoticed.

-- include catalog

local turn, changed = ARGV[4], false
if turn ~= '' then
  local held = redis.call('HGET', KEYS[6], ARGV[3]) or ''
  local id, began = string.match(held, '^(%S+) %d+ (%d+)$')
  if id ~= turn then return -1 end
  redis.call('HSET', KEYS[6], ARGV[3], id .. ' 0 ' .. began)
  local what = ARGV[7] == '' and 'ok' or 'failed'
  redis.call('HSET', KEYS[4], what, decimal(now), 'error', ARGV[7])
  if what == 'ok' then redis.call('HSET', KEYS[4], 'left', ARGV[8]) end
  changed = true
end
local first = 10 + tonumber(ARGV[9])
local gone = {}
for i = 10, first - 1 do
  gone[ARGV[i]] = true
end
for i = first, #ARGV, 2 do
  local tool = ARGV[i]
  local held = redis.call('HGET', KEYS[3], tool)
  local next = held and string.gsub(held, ' gone$', '') or ARGV[i + 1]
  if gone[tool] then next = next .. ' gone' end
  if next ~= held then
    redis.call('HSET', KEYS[3], tool, next)
    changed = true
  end
  gone[tool] = nil
end
for tool in pairs(gone) do
  local held = redis.call('HGET', KEYS[3], tool)
  if held and not string.find(held, ' gone$') then
    redis.call('HSET', KEYS[3], tool, held .. ' gone')
    changed = true
  end
end
if ARGV[5] ~= '' and redis.call('HGET', KEYS[4], 'sum') ~= ARGV[5] then
  redis.call('SET', KEYS[5], ARGV[6])
  redis.call('HSET', KEYS[4], 'sum', ARGV[5])
  changed = true
end
if changed then note(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]) end
return 0
