package redisstore

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy"
)

// eraseAtOnce is about how many keys one command looks through.
const eraseAtOnce = 1000

// erase deletes what is kept under a tenant's name, so that nobody who gets the name later gets that too: rules and
// candidates, approvals and what they hold for, answers to idempotency keys, what is used of limits, which approvals engines asked for, and where its sessions and artifacts are. What
// it was the first to have is nobody's then. Its record and its list of keys stay. Some of it may be left after an error.
//
// It looks through all keys, in steps: sessions and the like have no list.
func (t *Tenants) erase(ctx context.Context, id string) error {
	p := t.store.Policies()
	ruled, err := p.ruled(ctx, id)
	if err != nil {
		return err
	}
	err = t.eachNode(ctx, func(ctx context.Context, node redis.Cmdable) error { return t.eraseOn(ctx, node, id) })
	if err != nil || !ruled {
		return err
	}
	return p.erased(ctx, id)
}

// ruled says whether a tenant may have rules.
func (p *Policies) ruled(ctx context.Context, tenant string) (is bool, err error) {
	err = p.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		is, err = r.SIsMember(ctx, p.tenantsKey(), tenant).Result()
		return err
	})
	return is, err
}

// erased lets all replicas know that a tenant has no rules any more.
func (p *Policies) erased(ctx context.Context, tenant string) error {
	// It is of no rule that there can be, so that whatever is known is asked for again.
	if err := p.tell(ctx, policy.Change{Name: policy.Name{User: policy.Any}}); err != nil {
		return err
	}
	return p.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.SRem(ctx, p.tenantsKey(), tenant).Err()
	})
}

// eachNode visits every node that keys may be on.
func (c client) eachNode(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	cluster, ok := c.store.redis.(*redis.ClusterClient)
	if !ok {
		return f(ctx, c.store.redis)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return f(ctx, node) })
}

// eraseOn deletes a tenant's keys of one node, and makes nobody's what it was the first to have.
func (t *Tenants) eraseOn(ctx context.Context, node redis.Cmdable, id string) error {
	err := t.scan(ctx, node, globEscaper.Replace(t.store.cfg.Prefix+"{"+words(tag{id})+":")+"*",
		func(ctx context.Context, keys []string) error {
			_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, key := range keys {
					if t.erasable(key) {
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
	for _, firsts := range []string{"{artifacts:*}:first", "{engines:session:*}:owner"} {
		err = t.scan(ctx, node, globEscaper.Replace(t.store.cfg.Prefix)+firsts,
			func(ctx context.Context, keys []string) error {
				return disown(ctx, node, keys, id)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// scan hands on the keys of one node that match a pattern, step by step.
func (t *Tenants) scan(
	ctx context.Context, node redis.Cmdable, pattern string, each func(context.Context, []string) error,
) error {
	for cursor := uint64(0); ; {
		step, cancel := context.WithTimeout(withPurpose(ctx, t.purpose), t.store.cfg.Timeout)
		keys, next, err := node.Scan(step, cursor, pattern, eraseAtOnce).Result()
		if err == nil && len(keys) > 0 {
			err = each(step, keys)
		}
		cancel()
		if cursor = next; err != nil || cursor == 0 {
			return err
		}
	}
}

// disown makes nobody's what a tenant was the first to have. The keys stay as long as they would have: without them a
// file that its backend still has would be the next tenant's that a result names it to, whoever that is; and a session
// of an engine the next one's that names it.
func disown(ctx context.Context, node redis.Cmdable, keys []string, id string) error {
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

// erasable says whether a key is of what is kept under a tenant's name: the name may be the first word of another kind
// of key, as "slots" is.
func (t *Tenants) erasable(key string) bool {
	tagged, _, _ := strings.Cut(strings.TrimPrefix(key, t.store.cfg.Prefix+"{"), "}")
	switch all := strings.Split(tagged, ":"); len(all) {
	case 2:
		return slices.Contains([]string{"policy", "candidates", "approvals", "limits", "idempotency"}, all[1])
	case 4:
		return all[1] == "pin" || all[1] == "artifact" || all[1] == "question"
	}
	return false
}

// globEscaper makes a pattern of a text that only that text matches.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
