-- Points are numbers with commas between them, and REASON=NUMBER after spaces.

local function add_point(numbers, reasons, text)
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

-- count_point adds a point to a field of a hash. A field that a hash with too many of them does not have counts for
-- another one.
local function count_point(key, most, field, other, text)
  local known = redis.call('HGET', key, field)
  if not known and redis.call('HLEN', key) >= most then
    field = other
    known = redis.call('HGET', key, field)
  end
  if known then
    local numbers, reasons = {}, {n = 0}
    add_point(numbers, reasons, known)
    add_point(numbers, reasons, text)
    for i = 1, #numbers do numbers[i] = string.format('%.0f', numbers[i]) end
    text = table.concat(numbers, ',')
    for reason, n in pairs(reasons) do
      if reason ~= 'n' then text = text .. ' ' .. reason .. '=' .. string.format('%.0f', n) end
    end
  end
  redis.call('HSET', key, field, text)
end
