-- Returns open approvals that have expired.
--
-- KEYS: open. ARGV: maximum.

-- include now

return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
