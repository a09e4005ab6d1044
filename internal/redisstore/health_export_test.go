package redisstore

// ShardKey names the key of a shard.
func (b *HealthStore) ShardKey(n int) string { return b.shardKey(n) }

// MembershipKeys names the keys of the membership.
func (b *HealthStore) MembershipKeys() []string { return b.membershipKeys() }

// HealthChannel names the channel.
func (b *HealthStore) HealthChannel() string { return b.channel("health") }
