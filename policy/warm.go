package policy

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Recent remembers for replicas that start whose calls are decided on.
type Recent interface {
	// Remember adds keys, which are newer than all that are there, and forgets the oldest
	// of more than MostRecent. It must end with ctx.
	Remember(ctx context.Context, keys []Key) error
	// Recall answers with at most so many, the newest first. It must end with ctx.
	Recall(ctx context.Context, most int) ([]Key, error)
}

const (
	// MostRecent is how many keys are remembered, of all replicas.
	MostRecent = 10_000
	// mostOwn is how many of them a replica adds at a time.
	mostOwn = 1000
	// remembering is how often it does.
	remembering = 30 * time.Second
	// warming is how many keys are asked for at a time.
	warming = 1000
	// mostNames is how many rules one question is about.
	mostNames = 1000
)

// Keep lets recent know, until ctx ends and once more then, what was decided on last.
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

func (d *Decider) remember(ctx context.Context, recent Recent) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Patience)
	defer cancel()
	if keys := d.cache.recent(mostOwn, d.now()); len(keys) > 0 {
		_ = recent.Remember(ctx, keys) // without it a replica begins with less, or what was
	}
}

// Warm fills the cache with what recent remembers, until ctx ends, and says how many keys
// that was. It waits until Follow has heard of the store: before, nothing would be kept.
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

// warm asks for many keys at once, and keeps what is said.
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
	var would []ruling // without an answer nothing is compared
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

// lookMany finds what a store says of keys: a few questions for each tenant.
func lookMany(ctx context.Context, store Store, keys []Key) ([]ruling, error) {
	wanted := map[string]map[Name]Found{} // by tenant; of many keys the same rules are asked for
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

// each goes through the rules that may be about a key's calls, the deciding ones first.
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
