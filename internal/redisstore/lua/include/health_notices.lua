-- notify publishes changes of a shard that wait for a notice, with all set also those that are to wait longer. It
-- returns the ms after which a caller should publish the rest, or 0. That is a second later if others are to publish it
-- earlier: unless this call has published some changes, or alone says that none waited before.
--
-- Each follower gets each notice, so its cost grows with their number: that of the live replicas or, if more, of the
-- receivers. A node of a Cluster counts its own receivers only. paid is a time in µs. A notice advances it by fifty
-- times the time that the notice takes Redis with Unix sockets; TCP takes up to five times as long. Notices wait while
-- paid is more than a second ahead, so a single change never waits.

-- A notice of more than a few changes for many replicas is compact (health_compact.go). That takes Redis about 7 µs a
-- change, which shorter notices for a hundred replicas are worth. Otherwise they have the pace of plain ones. A notice
-- of a few changes is plain: a replica of an earlier version can read it, and its size hardly matters.

-- include health
-- include health_compact
-- include version

local notice_cost, change_cost, allowance, most, longest = 200, 3.5, 1000000, 128, 60000000
local few, many, compact_cost = 8, 100, 350
local function notify(page, waiting, paid, channel, beginning, replicas, alone, all)
  local left = redis.call('SCARD', waiting)
  if left == 0 then return 0 end
  local at = tonumber(redis.call('GET', paid) or '') or 0
  if at < micros or at > micros + longest then at = micros end
  local last, published = redis.call('HGET', page, 'v'), false
  while left > 0 and (all or not last or at <= micros + allowance) do
    local fields = redis.call('SPOP', waiting, most)
    table.sort(fields)
    local observations, version = redis.call('HMGET', page, unpack(fields)), nextVersion(last)
    local head = beginning .. ' ' .. version .. ' ' .. (last or '0')
    local short = #fields > few and tonumber(replicas) >= many and compact(head, fields, observations)
    local notice = short or plain(head, fields, observations)
    redis.call('HSET', page, 'v', version)
    local followers = math.max(tonumber(replicas), redis.call('PUBLISH', channel, notice))
    at = at + followers * (notice_cost + change_cost * #fields) + (short and compact_cost * #fields or 0)
    last, left, published = version, left - #fields, true
  end
  if published then redis.call('SET', paid, decimal(at), 'PX', decimal(math.ceil((at - micros) / 1000) + 1)) end
  if left == 0 then return 0 end
  local wait = math.ceil((at - allowance - micros) / 1000) + 1
  return (published or alone) and wait or wait + 1000
end
