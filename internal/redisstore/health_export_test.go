package redisstore

// PageKey names the key of a page.
func (b *HealthStore) PageKey(n int) string { return b.shardKey(n) }

// RollKeys names the keys of the roll.
func (b *HealthStore) RollKeys() []string { return b.membershipKeys() }

// HealthChannel names the channel.
func (b *HealthStore) HealthChannel() string { return b.channel("health") }
