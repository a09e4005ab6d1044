-- Records an answer to a pending approval, and if it is the final one, answers the approval. It is idempotent for one
-- token.
--
-- ARGV: id, token, state, TTL, TTL of an answer for the session or "", its signature or "", the signature that the
-- record must have or "", end of the answer or "", "1" for the final answer or "", person, the person's answer or "",
-- number of people who have answered before or -1, these people, number of names of all who have answered, these names,
-- fields and values.

-- include approvals

local id, token, state, ttl, lasting = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]
local r = find(id)
if not r then return answer('unknown') end
local seal, expected, expires = ARGV[10], ARGV[11], ARGV[12]
local final, person, given, before = ARGV[13], ARGV[14], ARGV[15], tonumber(ARGV[16])
local record, answers = named('record', id), named('answers', id)
local was = redis.call('HMGET', record, 'answer', 'grant', 'seal')
if expected ~= '' and was[3] ~= expected then return answer('unknown') end
local mine = redis.call('HGET', answers, person)
local again = was[1] == token or mine and string.sub(mine, 1, #token + 1) == token .. ' '
if r.state ~= 'pending' then return answer(again and 'answered' or 'late', whole(r)) end
if again then return answer('recorded', whole(r)) end
local session = was[2] or ''
if lasting ~= '' and session == '' then return answer('sessionless', whole(r)) end
if before >= 0 then
  local same = redis.call('HLEN', answers) == before
  for i = 17, 16 + before do same = same and redis.call('HGET', answers, ARGV[i]) end
  if not same then return answer('stale', whole(r)) end
end
if given ~= '' then
  redis.call('HSET', answers, person, token .. ' ' .. decimal(now) .. ' ' .. given)
  redis.call('PEXPIRE', answers, math.max(ttl, r.expires - now) + keep)
end
if final == '' then
  tell('answered', id)
  return answer('recorded', whole(r))
end
local names = {unpack(ARGV, 18 + math.max(before, 0), 17 + math.max(before, 0) + ARGV[17 + math.max(before, 0)])}
redis.call('HSET', record, 'state', state, 'expires', expires ~= '' and expires or decimal(now + ttl),
  'answered', decimal(now), 'answer', token, unpack(ARGV, 18 + math.max(before, 0) + #names))
keep_past(id, state, now, names)
redis.call('PEXPIRE', record, ttl + keep)
redis.pcall('PEXPIRE', answers, ttl + keep)
redis.pcall('ZREM', base .. 'pending', id)
redis.pcall('ZREM', base .. 'escalate', id)
redis.call('SET', named('call', r.call), id, 'PX', ttl)
if state == 'approved' then redis.call('ZADD', open, now + ttl, id) else redis.call('ZREM', open, id) end
if lasting ~= '' then
  local held = state .. ' ' .. id .. (seal ~= '' and ' ' .. seal or '')
  redis.call('SET', named('session', session), held, 'PX', lasting)
end
tell(state, id, lasting ~= '' and session)
return answer('answered', whole(load(id)))
