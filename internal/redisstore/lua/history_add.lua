-- Adds points to the points of the same series. A series that a step with too many of them does not have counts for
-- another one. A point is numbers with commas between them, and REASON=NUMBER after spaces.
--
-- KEYS: steps. ARGV: maximum of series of a step, TTL of each step in ms, and any number of: number of a key, series,
-- the other series, point.

local function add(numbers, reasons, text)
  local head, tail = string.match(text, '^([%d,]*)(.*)$')
  local i = 0
  for n in string.gmatch(head, '%d+') do
    i = i + 1
    numbers[i] = (numbers[i] or 0) + tonumber(n)
  end
  for reason, n in string.gmatch(tail, '([%w_]+)=(%d+)') do
    if not reasons[reason] then
      if reasons.n >= 7 then reason = 'OTHER' end
      if not reasons[reason] then
        reasons.n = reasons.n + 1
        reasons[reason] = 0
      end
    end
    reasons[reason] = reasons[reason] + tonumber(n)
  end
end

local most, at = tonumber(ARGV[1]), 1 + #KEYS
while at < #ARGV do
  local key, field, text = KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2], ARGV[at + 4]
  local known = redis.call('HGET', key, field)
  if not known and redis.call('HLEN', key) >= most then
    field = ARGV[at + 3]
    known = redis.call('HGET', key, field)
  end
  if known then
    local numbers, reasons = {}, {n = 0}
    add(numbers, reasons, known)
    add(numbers, reasons, text)
    for i = 1, #numbers do numbers[i] = string.format('%.0f', numbers[i]) end
    text = table.concat(numbers, ',')
    for reason, n in pairs(reasons) do
      if reason ~= 'n' then text = text .. ' ' .. reason .. '=' .. string.format('%.0f', n) end
    end
  end
  redis.call('HSET', key, field, text)
  at = at + 4
end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[1 + i]) end
return 1
