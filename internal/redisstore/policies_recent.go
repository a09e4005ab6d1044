package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy"
)

// recentTTL is the lifetime of the recently used keys without calls.
const recentTTL = 24 * time.Hour

func (p *Policies) recentKey() string { return p.key("{policies}:recent") }

var saveRecentScript = newScript("policies_save_recent")

// Save implements policy.Recent.
func (p *Policies) Save(ctx context.Context, keys []policy.Key) error {
	args := []any{policy.MaxRecent, recentTTL.Milliseconds()}
	for _, k := range keys {
		args = append(args, joinWords([]string{k.Tenant, k.User, k.Agent, k.Capability, k.Tool}))
	}
	return p.run(ctx, saveRecentScript, []string{p.recentKey()}, args...).Err()
}

// Load implements policy.Recent.
func (p *Policies) Load(ctx context.Context, most int) (keys []policy.Key, err error) {
	var members []string
	err = p.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		members, err = r.ZRevRange(ctx, p.recentKey(), 0, int64(most)-1).Result()
		return err
	})
	for _, m := range members {
		all, ok := splitWords(m, 5)
		if !ok {
			p.malformed(p.recentKey())
			continue
		}
		keys = append(keys, policy.Key{Subject: policy.Subject{Tenant: all[0], User: all[1], Agent: all[2]},
			Capability: all[3], Tool: all[4]})
	}
	return keys, err
}

var _ policy.Recent = (*Policies)(nil)
