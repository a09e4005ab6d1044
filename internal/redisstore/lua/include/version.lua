-- nextVersion returns the version after another one. It is greater than all earlier versions, including those that a
-- failover has undone: replicas may have read them.

-- include now

local function nextVersion(last) return decimal(math.max((tonumber(last or '') or 0) + 1, micros)) end
