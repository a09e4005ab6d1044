-- Returns the number of pending approvals and the creation time of the oldest one, in ms. It first records some that
-- have expired. base ends with a colon.

-- include approvals

sweep()
local pending = base .. 'pending'
local oldest = redis.call('ZRANGE', pending, 0, 0, 'WITHSCORES')
return answer(redis.call('ZCARD', pending), oldest[2] or '0')
