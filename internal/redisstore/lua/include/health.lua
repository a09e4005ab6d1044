-- must deletes a key that has another type.

-- include now

local function typeOf(key)
  local is = redis.call('TYPE', key)
  return type(is) == 'table' and is.ok or is
end
local function must(key, kind)
  local is = typeOf(key)
  if is ~= kind and is ~= 'none' then redis.call('DEL', key) end
end
