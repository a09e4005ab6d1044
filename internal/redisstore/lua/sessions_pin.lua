-- Sets a pin if there is none, or only the one that is to be replaced. It returns the pin in force: moves, address, age
-- in ms, whether this replica set it now, and whether it replaced a malformed value. The last word names the replicas
-- that may have used the pin in force, or the one that was replaced: "none", "this" or "others".
--
-- A pin is "moves since addr maker,user". The user is the only replica that may have used it: "" if none may have, "+"
-- if several may. A replica is recorded by the read that returns the pin to it, so before it can use it, even if it
-- dies later. Without a comma the user is the maker. A "~" before the maker means that others may have used the pin
-- before.
--
-- ARGV: moves, addr, replica, TTL in ms, "1" if no call uses the new pin, the "moves addr" to be replaced or "",
-- channel and message of the event or "".

-- include now

local pin, me, ttl, idle, from = ARGV[1] .. ' ' .. ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6]
local function put(moves, since, addr, maker, user)
  redis.call('SET', KEYS[1], moves .. ' ' .. since .. ' ' .. addr .. ' ' .. maker .. ',' .. user, 'PX', ttl)
end
local held = redis.pcall('GET', KEYS[1])
local bad, by = 0, from == '' and 'none' or 'others'
if type(held) == 'table' then
  bad, held = 1, false
end
if held then
  local moves, since, addr, after, maker, user = string.match(held, '^(%d+) (%d+) (%S*) (~?)([^%s,~]+),?(%S*)$')
  if not moves or #moves > 15 then
    bad = 1
  else
    if string.sub(held, -1) ~= ',' and user == '' then user = maker end
    by = (user == '' or addr == '') and 'none' or user == me and 'this' or 'others'
    local there = moves .. ' ' .. addr
    if there ~= from then
      local mine = from ~= '' and there == pin and maker == me
      if by == 'this' or mine or idle and from == '' then
        redis.call('PEXPIRE', KEYS[1], ttl)
      else
        put(moves, since, addr, after .. maker, by == 'none' and me or '+')
      end
      if mine then by = after == '' and 'none' or 'others' end
      return {moves, addr, decimal(now - since), mine and '1' or '0', '0', by}
    end
  end
end
put(ARGV[1], decimal(now), ARGV[2], (by == 'others' and '~' or '') .. me, idle and '' or me)
if ARGV[7] ~= '' then
  redis.pcall('PUBLISH', ARGV[7], ARGV[8])
end
return {ARGV[1], ARGV[2], '0', '1', tostring(bad), by}
