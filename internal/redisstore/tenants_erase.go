package redisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy"
)

// scanBatch is about the number of keys that one command visits.
const scanBatch = 1000

// erase deletes the data under a tenant's name, so that a later tenant of that name does not get it: the keys whose tag
// begins with the tenant in the table of keys, and its recent calls. What the tenant owned gets no new owner. The
// tenant's record and its list of keys stay. After an error some data may be left.
//
// It scans all keys in steps, as sessions and the like are in no index.
func (t *Tenants) erase(ctx context.Context, id string) error {
	p := t.store.Policies()
	ruled, err := p.mayHaveRules(ctx, id)
	if err != nil {
		return err
	}
	err = t.eachNode(ctx, func(ctx context.Context, node redis.Cmdable) error { return t.eraseOn(ctx, node, id) })
	if err == nil {
		err = t.store.Recent().erase(ctx, id)
	}
	for i := 0; i < len(storedKinds) && err == nil; i++ {
		err = t.store.Stored(storedKinds[i]).erase(ctx, id)
	}
	if err != nil || !ruled {
		return err
	}
	return p.rulesErased(ctx, id)
}

// mayHaveRules reports whether a tenant may have rules.
func (p *Policies) mayHaveRules(ctx context.Context, tenant string) (is bool, err error) {
	err = p.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		is, err = r.SIsMember(ctx, p.tenantsKey(), tenant).Result()
		return err
	})
	return is, err
}

// rulesErased notifies all replicas that a tenant has no rules.
func (p *Policies) rulesErased(ctx context.Context, tenant string) error {
	// No rule has this name, so replicas drop all that they have cached.
	if err := p.publishChange(ctx, policy.Change{Name: policy.Name{User: policy.Any}}); err != nil {
		return err
	}
	return p.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.SRem(ctx, p.tenantsKey(), tenant).Err()
	})
}

// eachNode visits every node that may have keys.
func (c client) eachNode(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	cluster, ok := c.store.redis.(*redis.ClusterClient)
	if !ok {
		return f(ctx, c.store.redis)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return f(ctx, node) })
}

// eraseOn deletes a tenant's keys of one node, and clears it as an owner.
func (t *Tenants) eraseOn(ctx context.Context, node redis.Cmdable, id string) error {
	table := Rows(keyTable)
	owned := ownedByTenants(table)
	err := t.scan(ctx, node, globEscaper.Replace(t.store.cfg.Prefix+"{"+joinWords([]string{id})+":")+"*",
		func(ctx context.Context, keys []string) error {
			_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, key := range keys {
					if owned(strings.TrimPrefix(key, t.store.cfg.Prefix)) {
						pipe.Unlink(ctx, key)
					}
				}
				return nil
			})
			return err
		})
	if err != nil {
		return err
	}
	for _, r := range table {
		if r.Type != "owner" {
			continue
		}
		err = t.scan(ctx, node, globEscaper.Replace(t.store.cfg.Prefix)+r.Glob(),
			func(ctx context.Context, keys []string) error {
				return clearOwner(ctx, node, keys, id)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// scan calls each with the keys of one node that match a pattern, in steps.
func (t *Tenants) scan(
	ctx context.Context, node redis.Cmdable, pattern string, each func(context.Context, []string) error,
) error {
	for cursor := uint64(0); ; {
		step, cancel := withPurpose(ctx, t.purpose, t.store.cfg.Timeout)
		keys, next, err := node.Scan(step, cursor, pattern, scanBatch).Result()
		if err == nil && len(keys) > 0 {
			err = each(step, keys)
		}
		cancel()
		if cursor = next; err != nil || cursor == 0 {
			return err
		}
	}
}

// clearOwner clears the owner in keys that a tenant owns. The keys keep their TTL. Without them, an artifact that its
// backend still has would belong to the next tenant whose result names it, and a session of an engine to the next
// tenant that uses its name.
func clearOwner(ctx context.Context, node redis.Cmdable, keys []string, id string) error {
	firsts := make([]*redis.StringCmd, len(keys))
	_, _ = node.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the error is one of a command
		for i, key := range keys {
			firsts[i] = pipe.Get(ctx, key)
		}
		return nil
	})
	for _, first := range firsts {
		if err := first.Err(); failed(err) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return err
		}
	}
	cmds, _ := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, first := range firsts {
			if first.Val() == id {
				pipe.SetArgs(ctx, keys[i], "", redis.SetArgs{Mode: "XX", KeepTTL: true})
			}
		}
		return nil
	})
	for _, cmd := range cmds {
		if err := cmd.Err(); failed(err) {
			return err
		}
	}
	return nil
}

// globEscaper escapes a text for a pattern that matches only that text.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
