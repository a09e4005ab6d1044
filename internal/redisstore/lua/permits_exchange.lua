-- Exchanges one Demand. A field of the hash is a replica's last report: its permits, its waiting calls, the start of
-- their wait (µs), the time and the end of the report (ms), and the sequence number of the Demand.
--
-- Replicas that want more get it in the order in which they began to wait; a replica that gets some moves to the end of
-- that order. Spare permits are granted only while no replica waits. Redis reduces the permits that a replica keeps
-- without using them to those in its report: after a long silence others may have got them.

-- include now

local me, seq, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local used, keep, need, spare = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local had, waited, since, others, bad = 0, 0, 0, {}, 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local held, unmet, from, said, ends, number = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not held then
    bad = bad + 1
    redis.call('HDEL', KEYS[1], all[i])
  elseif tonumber(ends) <= now then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] ~= me then
    table.insert(others, {all[i], tonumber(held), tonumber(unmet), tonumber(from), tonumber(said)})
  elseif tonumber(number) >= seq then
    return {-1, 0, 0, bad}
  else
    had, waited, since = tonumber(held), tonumber(unmet), tonumber(from)
  end
end

local lost = keep - math.max(used, math.min(keep, had))
keep, spare = keep - lost, spare + lost

if waited == 0 then since = micros end
local taken, waiting, ahead = 0, 0, 0
for _, o in ipairs(others) do
  taken = taken + o[2]
  if o[3] > 0 and o[5] > now - tonumber(ARGV[9]) then
    waiting = waiting + 1
    if o[4] < since or o[4] == since and o[1] < me then ahead = ahead + 1 end
  end
end

local free = math.max(limit - taken - keep, 0)
local more = math.min(need, math.max(free - ahead, 0))
local left = need - more
local held = keep + more
if waiting == 0 then held = held + math.min(spare, free - more) end
if more > 0 then since = micros end

if held == 0 and left == 0 then
  redis.call('HDEL', KEYS[1], me)
else
  local ends = now + tonumber(ARGV[8])
  redis.call('HSET', KEYS[1], me,
    string.format('%.0f %.0f %.0f %.0f %.0f %.0f', held, left, since, now, ends, seq))
  redis.call('PEXPIRE', KEYS[1], ARGV[8])
end
if left > 0 and waited == 0 or held < had and waiting > 0 then redis.call('PUBLISH', ARGV[10], ARGV[11]) end
return {held, waiting, #others + 1, bad}
