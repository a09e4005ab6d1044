package redisstore

// PageKey names the key of a page.
func (b *HealthBoard) PageKey(n int) string { return b.pageKey(n) }

// RollKeys names the keys of the roll.
func (b *HealthBoard) RollKeys() []string { return b.rollKeys() }

// HealthChannel names the channel.
func (b *HealthBoard) HealthChannel() string { return b.channel("health") }
