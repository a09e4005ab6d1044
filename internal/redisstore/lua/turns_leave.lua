-- Removes a ticket. ARGV: 1 if it has the turn.

-- include turns

sweep()
drop(ticket)
redis.call('ZREM', held, ticket)
if ARGV[5] == '1' then redis.call('ZREM', held, 'lost') end
grant()
last()
return 1
