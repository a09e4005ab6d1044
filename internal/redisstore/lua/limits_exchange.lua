-- Exchanges the demands of one tenant. The first key has the replica's last sequence number. Each demand has five keys,
-- and the arguments of limitArgs. Before them come the replica, the lifetime of its permits (ms), the number of values
-- with budgets of their own, the offset of the clock (ms), the sequence number, the time for which it is remembered
-- (ms), and the longest debt of a rate (ms). The answer has twelve numbers for each demand, and then the remaining time
-- of the day and of the month (ms). It is empty, and nothing counts, if the message is not newer than the last one of
-- the replica.
--
-- The rate is a token bucket. With a debt it has no token, and a time in the future, when the debt is paid. Calls
-- without a lease are charged to it, less the tokens that did not fit into it since the replica's last message. If
-- Redis has lost the bucket, the replica's is used. A budget is the number of calls in a period. That is the current
-- one by Redis' clock, or a later one by the clock of a former master. If Redis has no number, it may have lost it, and
-- the replica's number is used. A field of the permits for concurrent calls is a replica's last report: permits, end of
-- its demand for more, and end of the report (ms). While a replica demands more, no other one gets more than its fair
-- share.

-- include now

local me, ttl, room, ahead = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if (tonumber(redis.call('GET', KEYS[1]) or '') or 0) >= tonumber(ARGV[5]) then return {} end
redis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[6])

local debt = tonumber(ARGV[7])
now = micros / 1000 + ahead -- with fractions
local DAY = 86400000

local function month(days) -- the month, and its remaining days; after Howard Hinnant's civil_from_days
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local year, m = yoe + era * 400, mp + 3
  if m > 12 then year, m = year + 1, m - 12 end
  local length = ({31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31})[m]
  if m == 2 and year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0) then length = 29 end
  return year * 12 + m, length - day + 1
end

local day = math.floor(now / DAY)
local dayEnds = (day + 1) * DAY - now
local thisMonth, daysLeft = month(day)
local monthEnds = dayEnds + (daysLeft - 1) * DAY

local function used(key, period, field, known, calls)
  local stored = tonumber(redis.call('HGET', key, 'period') or '') or 0
  if stored < period then redis.call('DEL', key) end
  period = math.max(period, stored)
  local n = redis.call('HGET', key, field)
  if n then return tonumber(n) or 0, field, period end
  if redis.call('HLEN', key) > room then
    return tonumber(redis.call('HGET', key, '*') or 0) or 0, '*', period
  end
  if known == period then return calls, field, period, calls > 0 end
  return 0, field, period
end

local function keep(key, period, current, field, calls, ends)
  redis.call('HSET', key, 'period', decimal(period), field, decimal(math.max(calls, 0)))
  if period == current then redis.call('PEXPIRE', key, math.ceil(ends) + 1000) end
end

local function places(key, limit, use, had, need, spare)
  local mine, others, waiting, sharing = 0, 0, 0, 1
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local held, wants, ends = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
    if not held or tonumber(ends) <= now then
      redis.call('HDEL', key, all[i])
    elseif all[i] ~= me then
      others = others + tonumber(held)
      sharing = sharing + 1
      if tonumber(wants) > now then waiting = waiting + 1 end
    else
      mine = tonumber(held)
    end
  end
  local held = math.max(use, math.min(had, mine))
  spare = spare + had - held
  local free = math.max(limit - others - held, 0)
  local more = math.min(need, free)
  -- It returns what the division leaves.
  if waiting > 0 then more = math.min(more, math.ceil(limit / sharing) - held) end
  more = math.max(more, 0)
  held = held + more
  if waiting == 0 then held = held + math.min(spare, free - more) end
  local wants = need > more and now + 1000 or 0
  if held == 0 and wants == 0 then
    redis.call('HDEL', key, me)
  else
    redis.call('HSET', key, me, string.format('%.0f %.0f %.0f', held, wants, now + ttl))
    redis.call('PEXPIRE', key, ttl)
  end
  return held, waiting > 0 and sharing or 0, others
end

local function bucket(key, spillsKey, rate, burst, back, spent, known, seen, age)
  local tokens
  local spills = tonumber(redis.call('GET', spillsKey) or '') or math.max(seen, 1)
  local had, at = string.match(redis.call('GET', key) or '', '^(%d+%.%d+) (%d+%.%d+)$')
  if had then
    local passed = now - tonumber(at)
    if passed < -debt then passed = 0 end -- the clock of a promoted Redis is behind
    tokens = tonumber(had) + passed * rate / 1000
  else
    tokens, spills = (seen > 0 and known or burst) + age * rate / 1000, math.max(seen, 1)
  end
  local from = seen > 0 and seen or math.max(spills - age * rate / 1000, 0)
  local paid = math.min(math.max(spills - from, 0), spent)
  tokens, spills = tokens + back - spent + paid, spills - paid
  spills = spills + math.max(tokens - burst, 0)
  return math.max(math.min(tokens, burst), -rate * debt / 1000), spills, not had and seen > 0
end

local answer = {}
for i = 0, (#KEYS - 1) / 5 - 1 do
  local field, a = ARGV[8 + i * 20], {}
  for j = 1, 19 do a[j] = tonumber(ARGV[8 + i * 20 + j]) end
  local want, back, spent, rate, burst = a[1], a[2], a[3], a[4], a[5]
  local perDay, knownDay, dayCalls, perMonth, knownMonth, monthCalls = a[6], a[7], a[8], a[9], a[10], a[11]
  local k = i * 5 + 2
  local bucketKey, dayKey, monthKey, placesKey, spillsKey = KEYS[k], KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]

  local got, short, wait = want, 0, 0
  local tokens, spills, lostRate, lostDay, lostMonth = 0, 0
  if rate > 0 then
    tokens, spills, lostRate = bucket(bucketKey, spillsKey, rate, burst, back, spent, a[17], a[18], a[19])
    if tokens < got then
      got, short = math.max(math.floor(tokens), 0), 0
      wait = (1 - (tokens - got)) * 1000 / rate
    end
  end
  local today, dayField, itsDay, thisOne, monthField, itsMonth = 0, field, day, 0, field, thisMonth
  if perDay > 0 then
    today, dayField, itsDay, lostDay = used(dayKey, day, field, knownDay, dayCalls)
    today = today + spent
    if knownDay == itsDay then today = math.max(today - back, 0) end
    if math.max(perDay - today, 0) < got then got, short, wait = math.max(perDay - today, 0), 5, dayEnds end
  end
  if perMonth > 0 then
    thisOne, monthField, itsMonth, lostMonth = used(monthKey, thisMonth, field, knownMonth, monthCalls)
    thisOne = thisOne + spent
    if knownMonth == itsMonth then thisOne = math.max(thisOne - back, 0) end
    if math.max(perMonth - thisOne, 0) < got then got, short, wait = math.max(perMonth - thisOne, 0), 6, monthEnds end
  end
  if rate > 0 and (got + back + spent > 0 or lostRate or tokens <= -rate * debt / 1000) then
    tokens = tokens - got
    local paid = now + math.max(-tokens, 0) * 1000 / rate
    local lasts = math.ceil((burst - tokens) * 1000 / rate) + 1000
    redis.call('SET', bucketKey, string.format('%.6f %.3f', math.max(tokens, 0), paid), 'PX', lasts)
    redis.call('SET', spillsKey, string.format('%.6f', spills), 'PX', lasts)
  end
  if perDay > 0 then
    today = today + got
    if got + back + spent > 0 or lostDay then keep(dayKey, itsDay, day, dayField, today, dayEnds) end
  end
  if perMonth > 0 then
    thisOne = thisOne + got
    if got + back + spent > 0 or lostMonth then keep(monthKey, itsMonth, thisMonth, monthField, thisOne, monthEnds) end
  end
  local held, waiting, others = 0, 0, 0
  if a[12] > 0 or a[14] > 0 then
    held, waiting, others = places(placesKey, a[12], a[13], a[14], a[15], a[16])
  end
  local numbers = {got, short, math.ceil(wait), itsDay, today, itsMonth, thisOne, held, waiting, others,
    math.floor(tokens), math.ceil(spills)}
  for _, n in ipairs(numbers) do table.insert(answer, n) end
end
table.insert(answer, math.ceil(dayEnds))
table.insert(answer, math.ceil(monthEnds))
return answer
