-- What is kept of approvals that have ended, without arguments: an entry of a stream for each, and the numbers of each
-- day. base begins the names of a tenant's keys.

-- include now
-- include points

local past_age, past_most, past_series = 2592000000, 5000, 200
local outcomes = {approved = '1,0,0,0', denied = '0,1,0,0', expired = '0,0,1,0', withdrawn = '0,0,0,1'}

-- waited returns the point of an approval that was answered after so many ms. A bucket ends at a power of the root of
-- 2, in seconds.
local function waited(outcome, ms)
  local bucket = ms < 1000 and 0 or math.min(1 + math.floor(2 * math.log(ms / 1000) / math.log(2)), 39)
  return outcome .. string.rep(',0', bucket) .. ',1'
end

-- past records a pending approval that ended at a time. names are those of the people who answered it.
local function past(base, id, outcome, ended, names)
  local fields = {'user', 'agent', 'capability', 'tool', 'request', 'by', 'comment', 'remember', 'created'}
  local values = redis.call('HMGET', base .. 'record:' .. id, unpack(fields))
  local entry = {'id', id, 'outcome', outcome, 'ended', decimal(ended)}
  for i, field in ipairs(fields) do
    local value = string.sub(values[i] or '', 1, field == 'comment' and 512 or 256)
    if value ~= '' then
      entry[#entry + 1] = field
      entry[#entry + 1] = value
    end
  end
  local key = base .. 'past'
  redis.call('XADD', key, 'MAXLEN', '~', past_most, '*', unpack(entry))
  redis.call('XTRIM', key, 'MINID', '~', decimal(now - past_age))
  redis.call('PEXPIRE', key, past_age)
  local text, tool = outcomes[outcome], (values[3] or '') .. ' ' .. string.sub(values[4] or '', 1, 256)
  local day = base .. 'day:' .. decimal(math.floor(ended / 86400000))
  local created = tonumber(values[9] or '')
  if #names > 0 and created then text = waited(text, ended - created) end
  count_point(day, past_series, 'all', 'all', text)
  count_point(day, past_series, 'tool ' .. tool, 'tool', text)
  for _, name in ipairs(names) do
    count_point(day, past_series, 'by ' .. string.sub(name, 1, 256), 'by', text)
  end
  redis.call('PEXPIRE', day, past_age + 86400000)
end
