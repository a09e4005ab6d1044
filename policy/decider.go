package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/lib/cache"
	"github.com/capgate/capgate/internal/toolschema"
)

// Options of a Decider. The zero value is usable.
type Options struct {
	Store    Store         // of rules; nil: none, and no call waits
	Shadow   Store         // of candidate rules, evaluated for comparison; nil: none
	Source   Source        // the declarations about tools; nil: none, which blocks
	Entries  int           // cache size, default 100,000
	TTL      time.Duration // of a cache entry, plus or minus a fifth; default 1 min
	MaxStale time.Duration // time for which entries stay valid after the last sync with the store; default 10 min
	Timeout  time.Duration // of one query to the store; default 1 s

	// Lost is called when the store has lost its rules, and when they are back or their loss was accepted; nil: nothing
	// is called.
	Lost func(lost bool)

	// Changed is called after rules may have changed. It must not block; nil: nothing is called.
	Changed func(Change)

	Now func() time.Time // default time.Now; only differences matter
}

func (o *Options) setDefaults() {
	if o.Source == nil {
		o.Source = emptySource{}
	}
	if o.Changed == nil {
		o.Changed = func(Change) {}
	}
	if o.Lost == nil {
		o.Lost = func(bool) {}
	}
	if o.Entries == 0 {
		o.Entries = 100_000
	}
	for d, standard := range map[*time.Duration]time.Duration{
		&o.TTL: time.Minute, &o.MaxStale: 10 * time.Minute, &o.Timeout: time.Second,
	} {
		if *d == 0 {
			*d = standard
		}
	}
}

// emptySource is a Source without declarations.
type emptySource struct{}

func (emptySource) Tool(string, string) (call.Verdict, Level, ToolState) {
	return call.Block, Default, Accepted
}
func (emptySource) DependsOnTool(string) bool                        { return false }
func (emptySource) Schema(string, string) (*toolschema.Schema, bool) { return nil, false }
func (emptySource) Credentials(string) *credentials.Names            { return nil }

// Decider answers whether calls may run. It is safe for concurrent use.
type Decider struct {
	opts      Options
	freshness *cache.Freshness
	cache     *matchCache
	flights   cache.Flights[flight, matches]
	counters  stats

	firstSync     chan struct{} // closed at the first sync
	firstSyncOnce sync.Once     // closes it
}

// flight identifies a query. The generation keeps a call after a change from joining a query from before it.
type flight struct {
	key        string
	generation uint64
}

// New returns a Decider.
func New(o Options) (*Decider, error) {
	o.setDefaults()
	return &Decider{
		opts: o, freshness: cache.NewFreshness(o.TTL, o.MaxStale, o.Now), cache: newCache(o.Entries),
		firstSync: make(chan struct{}),
	}, nil
}

// now returns nanoseconds; only differences matter.
func (d *Decider) now() int64 { return d.freshness.Now() }

// wall returns the time of day, which the ends of rules are compared with.
func (d *Decider) wall() time.Time {
	if d.opts.Now == nil {
		return time.Now()
	}
	return d.opts.Now()
}

// Decide returns the decision on c from memory. It runs on a connection's reader and does not block. If
// ok is false, the caller must Fetch it.
func (d *Decider) Decide(c *call.Call) (decision Decision, ok bool) {
	return d.DecideAt(c, time.Time{})
}

// DecideAt is Decide at a time of the system's clock that the caller has read; zero means now.
func (d *Decider) DecideAt(c *call.Call, at time.Time) (decision Decision, ok bool) {
	if d.opts.Store == nil {
		return decide(matches{}, d.opts.Source, c.Capability, c.Tool).on(c), true
	}
	k := keyOf(c)
	e := d.cache.get(&k)
	if e == nil {
		return Decision{}, false
	}
	if now := d.freshness.At(at); !d.freshness.ValidAt(e.Until, now) || e.Value.ended(now) {
		return Decision{}, false
	}
	decision = decide(e.Value.matches, d.opts.Source, c.Capability, c.Tool).on(c)
	decision.Cached = true
	return decision, true
}

// DependsOnTool reports whether the tool of a call matters to its decision.
func (d *Decider) DependsOnTool(capability string) bool {
	return d.opts.Store != nil || d.opts.Source.DependsOnTool(capability)
}

// Schema returns the schema of a tool's arguments if they are to be checked; nil: then it is unknown.
func (d *Decider) Schema(capability, tool string) (s *toolschema.Schema, checked bool) {
	return d.opts.Source.Schema(capability, tool)
}

// Credentials returns the credentials that calls of a capability may contain; nil: any.
func (d *Decider) Credentials(capability string) *credentials.Names {
	return d.opts.Source.Credentials(capability)
}

// Fetch returns the decision on c like Decide, and queries the store on a cache miss. It waits until
// ctx ends. Without an answer the call is refused. A query takes at most Patience; a store that
// ignores its context is not waited for.
func (d *Decider) Fetch(ctx context.Context, c *call.Call) (Decision, *call.Refusal) {
	if decision, known := d.Decide(c); known {
		return decision, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*d.opts.Timeout)
	defer cancel()
	view := keyOf(c)
	key := string(view.append(nil)) // the call's strings are views of a connection's buffer
	k, generation := parseKey(key), d.cache.generation(&view)
	found, answered, err := d.flights.Do(ctx, flight{key, generation},
		func() (matches, error) { return d.load(key, generation) })
	switch {
	case !answered:
		return Decision{}, errRulesUnavailable
	case err == nil:
		return decide(found, d.opts.Source, k.Capability, k.Tool).on(c), nil
	}
	d.counters.failures.Add(1)
	if e := d.cache.get(&k); e != nil && !e.Value.ended(d.now()) && d.freshness.Usable() {
		decision := decide(e.Value.matches, d.opts.Source, k.Capability, k.Tool).on(c)
		decision.Cached = true
		return decision, nil
	}
	if errors.Is(err, errLost) {
		return Decision{}, errRulesLost
	}
	return Decision{}, errRulesUnavailable
}

// errRulesUnavailable is the refusal while neither memory nor the store can decide.
var errRulesUnavailable = &call.Refusal{
	Kind: call.Unavailable, Reason: "POLICY_UNKNOWN",
	Message:    "the rules for this call are unavailable at the moment; retry later",
	RetryAfter: time.Second,
}

// errRulesLost is the refusal while the store is without its rules.
var errRulesLost = &call.Refusal{
	Kind: call.Unavailable, Reason: "POLICY_UNKNOWN",
	Message:    "the rules are lost; an operator must restore them, or accept their loss",
	RetryAfter: time.Second,
}

// load queries the store, and caches the result.
func (d *Decider) load(key string, generation uint64) (matches, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.Timeout)
	defer cancel()
	d.counters.misses.Add(1)
	k := parseKey(key)
	list, found, err := d.findRules(ctx, d.opts.Store, k)
	if err != nil {
		return matches{}, err
	}
	var r matches
	var end time.Time
	r.match, end = firstMatch(list, found)
	d.endBy(&r, end)
	if d.opts.Shadow != nil {
		// an error disables the comparison only
		if _, candidates, err := d.findRules(ctx, d.opts.Shadow, k); err == nil {
			r.candidate, end = firstMatch(list, over(found, candidates))
			r.shadow = true
			d.endBy(&r, end)
		}
	}
	if err := d.remember(key, r, generation); err != nil {
		return matches{}, err
	}
	return r, nil
}

// remember caches matches, unless the store turned out to have lost rules while they were read.
func (d *Decider) remember(key string, r matches, generation uint64) error {
	d.cache.put(key, r, d.now(), d.freshness.Expiry(), generation)
	if d.freshness.Lost() {
		d.cache.dropSince(d.freshness.LastSync())
		return errLost
	}
	return nil
}

// findRules finds every rule of a store that may apply to a call.
func (d *Decider) findRules(ctx context.Context, store Store, k Key) (list []leveled, found []Found, err error) {
	list, global := rulesFor(k.Subject, k.Capability, k.Tool)
	plain := make([]Name, len(list))
	for i := range list {
		plain[i] = list[i].Name
	}
	if global > 0 {
		if found, err = d.query(ctx, store, k.Tenant, plain[:global]); err != nil {
			return nil, nil, err
		}
	}
	all, err := d.query(ctx, store, "", plain[global:])
	return list, append(found, all...), err
}

// query queries the rules of a tenant. Those that have ended are absent.
func (d *Decider) query(ctx context.Context, store Store, tenant string, names []Name) ([]Found, error) {
	found, err := store.Find(ctx, tenant, names)
	if err == nil && len(found) != len(names) {
		err = errors.New("the store returned another number of rules than requested")
	}
	if err != nil {
		return nil, fmt.Errorf("find rules: %w", err)
	}
	for i := range found {
		if end := found[i].Expires; !end.IsZero() && !d.wall().Before(end) {
			found[i] = Found{}
		}
	}
	return found, nil
}

// Invalidate invalidates the entries of a changed rule. Its calls may be repeated and in any order.
func (d *Decider) Invalidate(c Change) {
	d.cache.invalidate(c)
	d.opts.Changed(c)
}

// Synced records that no change is missing. Watch calls both.
func (d *Decider) Synced() { d.synced(d.now()) }

// synced records the time of a sync.
func (d *Decider) synced(at int64) {
	d.freshness.Synced(at)
	d.firstSyncOnce.Do(func() { close(d.firstSync) })
}
