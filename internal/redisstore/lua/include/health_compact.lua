-- The forms of a notice. plain has each field and its observation in full. compact omits what neighbours have in
-- common, as described in health_compact.go; it returns nil if an observation was deleted, or has another form.

-- include now

local function plain(head, fields, observations)
  local lines = {head}
  for i, field in ipairs(fields) do
    lines[#lines + 1] = field
    lines[#lines + 1] = observations[i] or ''
  end
  return table.concat(lines, '\n')
end

-- differ returns a word without its beginning and its end that another word shares, after the lengths of these.
local byte, char, sub, match, format = string.byte, string.char, string.sub, string.match, string.format
local function differ(word, other)
  local length, others, first, last = #word, #other, 0, 0
  local most = math.min(length, others, 64)
  while first < most and byte(word, first + 1) == byte(other, first + 1) do first = first + 1 end
  most = math.min(length - first, others - first, 64)
  while last < most and byte(word, length - last) == byte(other, others - last) do last = last + 1 end
  return char(48 + first, 48 + last) .. sub(word, first + 1, length - last)
end

local observation_form = '^(%d+) (%d+) (%d %d %d) (%d+) ([^ ]*) (.*)$'
local function compact(head, fields, observations)
  local lines, kinds, count, capability, addr, by = {head .. ' ' .. decimal(now)}, {}, 0, '', '', ''
  for i, field in ipairs(fields) do
    local c, a, slot = match(field, '^([^ ]+) ([^ ]+) (%d)$')
    local since, written, found, episode, b, reason = match(observations[i] or '', observation_form)
    if not (c and since) or #since > 14 or #written > 14 or #episode > 10 then return nil end
    local kind = slot .. ' ' .. found .. ' ' .. reason
    local number = kinds[kind]
    if not number then
      count = count + 1
      kinds[kind], number = count, count .. ' ' .. kind
    end
    lines[i + 1] = differ(c, capability) .. ' ' .. differ(a, addr) .. ' ' .. differ(b, by) .. ' ' .. now - written
      .. ' ' .. written - since .. ' ' .. format('%x', tonumber(episode)) .. ' ' .. number
    capability, addr, by = c, a, b
  end
  return table.concat(lines, '\n')
end
