package policy

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Recent persists recently used keys, for replicas that start.
type Recent interface {
	// Remember adds keys, which are newer than all stored ones, and drops the oldest of more than
	// MostRecent. It must end with ctx.
	Remember(ctx context.Context, keys []Key) error
	// Recall returns at most so many keys, the newest first. It must end with ctx.
	Recall(ctx context.Context, most int) ([]Key, error)
}

const (
	// MostRecent bounds the stored keys of all replicas.
	MostRecent = 10_000
	// mostOwn bounds the keys that a replica adds at a time.
	mostOwn = 1000
	// remembering is the interval of these additions.
	remembering = 30 * time.Second
	// warming is the number of keys in one batch of Warm.
	warming = 1000
	// mostNames bounds the rules of one query.
	mostNames = 1000
)

// Keep periodically stores the most recently used keys until ctx ends, and once more then.
func (d *Decider) Keep(ctx context.Context, recent Recent) {
	tick := time.NewTicker(remembering)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.remember(ctx, recent)
		case <-ctx.Done():
			d.remember(context.WithoutCancel(ctx), recent)
			return
		}
	}
}

// remember stores the most recently used keys.
func (d *Decider) remember(ctx context.Context, recent Recent) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Patience)
	defer cancel()
	if keys := d.cache.recent(mostOwn, d.now()); len(keys) > 0 {
		_ = recent.Remember(ctx, keys) // after an error a new replica starts with fewer or older keys
	}
}

// Warm fills the cache with the stored keys until ctx ends, and returns their number. It waits for the
// first sync of Watch, as entries from before would not be valid.
func (d *Decider) Warm(ctx context.Context, recent Recent) (int, error) {
	select {
	case <-d.following:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	keys, err := recent.Recall(ctx, min(MostRecent, d.opts.Entries))
	n := 0
	for batch := range slices.Chunk(keys, warming) {
		if err = d.warm(ctx, batch); err != nil {
			break
		}
		n += len(batch)
	}
	return n, err
}

// warm loads many keys with few queries.
func (d *Decider) warm(ctx context.Context, keys []Key) error {
	stamps := make([]uint64, len(keys))
	for i := range keys {
		stamps[i] = d.cache.stamp(&keys[i])
	}
	if d.lost.Load() {
		return errLost
	}
	ruled, err := lookMany(ctx, d.opts.Store, keys)
	if err != nil {
		return err
	}
	var would []ruling // nil: no comparison
	if d.opts.Shadow != nil {
		if said, err := lookMany(ctx, d.opts.Shadow, keys); err == nil {
			would = said
		}
	}
	for i := range keys {
		r := rulings{ruling: ruled[i]}
		if would != nil {
			r.candidate, r.shadow = would[i], true
		}
		d.cache.put(string(keys[i].append(nil)), r, d.end(), stamps[i])
	}
	return nil
}

// lookMany finds the matches of keys: a few queries for each tenant.
func lookMany(ctx context.Context, store Store, keys []Key) ([]ruling, error) {
	wanted := map[string]map[Name]Found{} // by tenant; many keys need the same rules
	for i := range keys {
		each(&keys[i], func(tenant string, l leveled) {
			if wanted[tenant] == nil {
				wanted[tenant] = map[Name]Found{}
			}
			wanted[tenant][l.Name] = Found{}
		})
	}
	for tenant, found := range wanted {
		for names := range slices.Chunk(slices.Collect(maps.Keys(found)), mostNames) {
			answers, err := ask(ctx, store, tenant, names)
			if err != nil {
				return nil, err
			}
			for i, n := range names {
				found[n] = answers[i]
			}
		}
	}
	ruled := make([]ruling, len(keys))
	for i := range keys {
		each(&keys[i], func(tenant string, l leveled) {
			if f := wanted[tenant][l.Name]; f.Present && ruled[i].reach == noRule {
				ruled[i] = l.rules(f.Verdict)
			}
		})
	}
	return ruled, nil
}

// each visits the rules that may apply to a key, in the order of precedence.
func each(k *Key, f func(tenant string, l leveled)) {
	list, global := names(k.Subject, k.Capability, k.Tool)
	for i, l := range list {
		tenant := k.Tenant
		if i >= global {
			tenant = ""
		}
		f(tenant, l)
	}
}
