package redisstore

import (
	"context"

	"github.com/capgate/capgate/health"
)

// ShardKey names the key of a shard.
func (b *HealthStore) ShardKey(n int) string { return b.shardKeys(n)[0] }

// PaidKey names the key of what a shard's notices have cost.
func (b *HealthStore) PaidKey(n int) string { return b.shardKeys(n)[2] }

// MembershipKeys names the keys of the membership.
func (b *HealthStore) MembershipKeys() []string { return b.membershipKeys() }

// HealthChannel names the channel.
func (b *HealthStore) HealthChannel() string { return b.channel("health") }

// SetLive sets the number of live replicas that the last heartbeat has read.
func (b *HealthStore) SetLive(n int64) { b.live.Store(n) }

// Live returns it.
func (b *HealthStore) Live() int64 { return b.live.Load() }

// WaitingKey names the key of a shard's changes that wait.
func (b *HealthStore) WaitingKey(n int) string { return b.shardKeys(n)[1] }

// Messages receives the notices until ctx ends.
func (b *HealthStore) Messages(ctx context.Context, receive func(string), subscribed func()) {
	b.subscribe(ctx, b.channel("health"), receive, subscribed)
}

// DecodeEvent decodes a notice.
func DecodeEvent(message string) (health.Event, bool) { return decodeEvent(message) }
