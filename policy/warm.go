package policy

import (
	"context"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// Recent persists recently used keys, for replicas that start.
type Recent interface {
	// Save adds keys, which are newer than all stored ones, and drops the oldest of more than
	// MaxRecent. It must end with ctx.
	Save(ctx context.Context, keys []Key) error
	// Load returns at most so many keys, the newest first. It must end with ctx.
	Load(ctx context.Context, most int) ([]Key, error)
}

const (
	// MaxRecent bounds the stored keys of all replicas.
	MaxRecent = 10_000
	// recentBatch bounds the keys that a replica adds at a time.
	recentBatch = 1000
	// recentInterval is the interval of these additions.
	recentInterval = 30 * time.Second
	// warmBatch is the number of keys in one batch of Warm.
	warmBatch = 1000
	// maxNamesPerQuery bounds the rules of one query.
	maxNamesPerQuery = 1000
)

// PersistRecent periodically stores the most recently used keys until ctx ends, and once more then.
func (d *Decider) PersistRecent(ctx context.Context, recent Recent) {
	for backoff.Sleep(ctx, recentInterval) {
		d.saveRecent(ctx, recent)
	}
	d.saveRecent(context.WithoutCancel(ctx), recent)
}

// saveRecent stores the most recently used keys.
func (d *Decider) saveRecent(ctx context.Context, recent Recent) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	if keys := d.cache.recent(recentBatch, d.now()); len(keys) > 0 {
		_ = recent.Save(ctx, keys) // after an error a new replica starts with fewer or older keys
	}
}

// Warm fills the cache with the stored keys until ctx ends, and returns their number. It waits for the
// first sync of Watch, as entries from before would not be valid.
func (d *Decider) Warm(ctx context.Context, recent Recent) (int, error) {
	select {
	case <-d.firstSync:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	keys, err := recent.Load(ctx, min(MaxRecent, d.opts.Entries))
	n := 0
	for batch := range slices.Chunk(keys, warmBatch) {
		if err = d.warm(ctx, batch); err != nil {
			break
		}
		n += len(batch)
	}
	return n, err
}

// warm loads many keys with few queries.
func (d *Decider) warm(ctx context.Context, keys []Key) error {
	generations := make([]uint64, len(keys))
	for i := range keys {
		generations[i] = d.cache.generation(&keys[i])
	}
	ruled, err := d.findRulesOfKeys(ctx, d.opts.Store, keys)
	if err != nil {
		return err
	}
	var candidates []ending // nil: no comparison
	if d.opts.Shadow != nil {
		if said, err := d.findRulesOfKeys(ctx, d.opts.Shadow, keys); err == nil {
			candidates = said
		}
	}
	for i := range keys {
		r := matches{match: ruled[i].match}
		d.endBy(&r, ruled[i].end)
		if candidates != nil {
			c := candidates[i].over(ruled[i])
			r.candidate, r.shadow = c.match, true
			d.endBy(&r, c.end)
		}
		if err := d.remember(string(keys[i].append(nil)), r, generations[i]); err != nil {
			return err
		}
	}
	return nil
}

// ending is a match with its rule's end; zero: never.
type ending struct {
	match
	end time.Time
	at  int // position in the order of precedence
}

// over returns a candidate, or the rule that precedes it.
func (e ending) over(rule ending) ending {
	if rule.scope != noRule && (e.scope == noRule || rule.at < e.at) {
		return rule
	}
	return e
}

// findRulesOfKeys finds the matches of keys: a few queries for each tenant.
func (d *Decider) findRulesOfKeys(ctx context.Context, store Store, keys []Key) ([]ending, error) {
	rules := newBatch(func(ctx context.Context, tenant string, names []Name) ([]Found, error) {
		return d.query(ctx, store, tenant, names)
	})
	for i := range keys {
		each(&keys[i], func(tenant string, l leveled) { rules.get(tenant, l.Name) })
	}
	if err := rules.load(ctx); err != nil {
		return nil, err
	}
	ruled := make([]ending, len(keys))
	for i := range keys {
		at := 0
		each(&keys[i], func(tenant string, l leveled) {
			if f := rules.get(tenant, l.Name); f.Present && ruled[i].scope == noRule {
				ruled[i] = ending{l.match(&f), f.Expires, at}
			}
			at++
		})
	}
	return ruled, nil
}

// each visits the rules that may apply to a key, in the order of precedence.
func each(k *Key, f func(tenant string, l leveled)) {
	list, global := rulesFor(k.Subject, k.Capability, k.Tool)
	for i, l := range list {
		tenant := k.Tenant
		if i >= global {
			tenant = ""
		}
		f(tenant, l)
	}
}
