-- Removes an entry. ARGV: id.

-- include webhooks

remove(ARGV[1])
return 1
