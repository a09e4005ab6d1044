package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/toolschema"
)

// Options of a Decider. The zero value is usable.
type Options struct {
	Store    Store         // where rules are; nil: there are none, and nothing is ever asked
	Shadow   Store         // candidate rules, of which it is found out what they would change; nil: it is not
	Source   Source        // what is said of tools beside rules; nil: nothing, which blocks
	Entries  int           // rulings kept in memory, default 100,000
	TTL      time.Duration // a ruling is asked for again after it, give or take a fifth; default 1 min
	MaxStale time.Duration // what is known is taken for so long after the store was last heard; default 10 min
	Patience time.Duration // most time that one question to the store takes; default 1 s

	Now func() time.Time // default time.Now; only differences matter
}

// lag is how long the store may be silent before its rulings count as stale: several
// of the rounds in which its follower asks whether anything has changed.
const lag = 5 * time.Second

func (o *Options) setDefaults() {
	if o.Source == nil {
		o.Source = silence{}
	}
	if o.Entries == 0 {
		o.Entries = 100_000
	}
	for d, standard := range map[*time.Duration]time.Duration{&o.TTL: time.Minute, &o.MaxStale: 10 * time.Minute, &o.Patience: time.Second} {
		if *d == 0 {
			*d = standard
		}
	}
}

// silence is a Source that says nothing.
type silence struct{}

func (silence) Tool(string, string) (call.Verdict, Level, ToolState) {
	return call.Block, Nobody, Accepted
}
func (silence) Heeds(string) bool                                { return false }
func (silence) Schema(string, string) (*toolschema.Schema, bool) { return nil, false }
func (silence) Credentials(string) *credentials.Names            { return nil }

// Decider answers whether calls may run. It is safe for concurrent use.
type Decider struct {
	opts    Options
	began   time.Time
	cache   *cache
	asking  singleflight.Group
	heard   atomic.Int64 // when the store last confirmed that every change was told, as now()
	lost    atomic.Bool  // the store has fewer rules than it had, so that nobody knows what they were
	counted stats

	following chan struct{} // closed when the store was first heard
	follows   sync.Once     // closes it
}

// New returns a Decider.
func New(o Options) (*Decider, error) {
	o.setDefaults()
	d := &Decider{opts: o, began: time.Now(), cache: newCache(o.Entries), following: make(chan struct{})}
	if o.Now != nil {
		d.began = o.Now()
	}
	return d, nil
}

// now is in nanoseconds; only differences matter.
func (d *Decider) now() int64 {
	if d.opts.Now == nil {
		return int64(time.Since(d.began)) // which asks for less than time.Now
	}
	return int64(d.opts.Now().Sub(d.began))
}

// Decide says what becomes of c. It runs on a connection's reader: it answers from memory
// and does not block. Where it is not ok, Ask has to be asked.
func (d *Decider) Decide(c *call.Call) (decision Decision, ok bool) {
	if d.opts.Store == nil {
		return decide(rulings{}, d.opts.Source, c.Capability, c.Tool), true
	}
	k := keyOf(c)
	e := d.cache.get(&k)
	if e == nil || !d.stands(e.until) {
		return Decision{}, false
	}
	decision = decide(e.rulings, d.opts.Source, c.Capability, c.Tool)
	decision.Cached = true
	return decision, true
}

// Heeds says whether the tool matters to what becomes of a call.
func (d *Decider) Heeds(capability string) bool {
	return d.opts.Store != nil || d.opts.Source.Heeds(capability)
}

// Schema is what the arguments of a tool have to keep to, if they are to be checked; nil: then
// nobody knows.
func (d *Decider) Schema(capability, tool string) (s *toolschema.Schema, checked bool) {
	return d.opts.Source.Schema(capability, tool)
}

// Credentials are those that calls of a capability may bring; nil: they may bring anything.
func (d *Decider) Credentials(capability string) *credentials.Names {
	return d.opts.Source.Credentials(capability)
}

// stands says whether a ruling with such an end may be taken as it is. While the store is
// heard it is asked again when its time is over; while it is not, what is known goes on for
// MaxStale.
func (d *Decider) stands(until int64) bool {
	now := d.now()
	silent := time.Duration(now - d.heard.Load())
	if silent > d.opts.MaxStale {
		return false
	}
	return now <= until || silent > lag
}

// Ask decides as Decide does where memory knows. Else it waits for the store until ctx ends, and refuses the call
// where the store does not answer. The store has Patience; a store that goes on regardless is not waited for.
func (d *Decider) Ask(ctx context.Context, c *call.Call) (Decision, *call.Refusal) {
	if decision, known := d.Decide(c); known {
		return decision, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*d.opts.Patience)
	defer cancel()
	asked := keyOf(c)
	text := string(asked.append(nil)) // the call's words lie in a connection's buffer
	stamp := d.cache.stamp(&asked)
	// Who asks after a change does not get what was asked for before it.
	answer := d.asking.DoChan(text+strconv.FormatUint(stamp, 10), func() (any, error) { return d.find(text, stamp) })
	r, came := receive(ctx, answer)
	if !came {
		return Decision{}, refusedUnknown
	}
	k := parseKey(text)
	if r.Err != nil {
		d.counted.failures.Add(1)
		if e := d.cache.get(&k); e != nil && time.Duration(d.now()-d.heard.Load()) <= d.opts.MaxStale {
			decision := decide(e.rulings, d.opts.Source, k.Capability, k.Tool)
			decision.Cached = true
			return decision, nil
		}
		return Decision{}, refusedUnknown
	}
	found, _ := r.Val.(rulings)
	return decide(found, d.opts.Source, k.Capability, k.Tool), nil
}

// receive waits for an answer until ctx ends. An answer that came at the same moment counts.
func receive[T any](ctx context.Context, answer <-chan T) (a T, came bool) {
	select {
	case a = <-answer:
		return a, true
	case <-ctx.Done():
	}
	select {
	case a = <-answer:
		return a, true
	default:
		return a, false
	}
}

// refusedUnknown is what a call gets while nobody can say whether it may run.
var refusedUnknown = &call.Refusal{
	Kind: call.Unavailable, Reason: "POLICY_UNKNOWN",
	Message:    "whether this call may run cannot be found out at the moment",
	RetryAfter: time.Second,
}

// find asks the store, and keeps what it says.
func (d *Decider) find(key string, stamp uint64) (rulings, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.Patience)
	defer cancel()
	d.counted.misses.Add(1)
	if d.lost.Load() {
		return rulings{}, errLost
	}
	k := parseKey(key)
	list, found, err := look(ctx, d.opts.Store, k)
	if err != nil {
		return rulings{}, err
	}
	r := rulings{ruling: rule(list, found)}
	if d.opts.Shadow != nil {
		if _, would, err := look(ctx, d.opts.Shadow, k); err == nil { // else nothing is compared: it must harm nobody
			r.candidate, r.shadow = rule(list, would), true
		}
	}
	d.cache.put(key, r, d.end(), stamp)
	return r, nil
}

// end is until when a ruling of now is taken without asking again.
func (d *Decider) end() int64 {
	jitter := 0.8 + 0.4*rand.Float64()
	return d.now() + int64(float64(d.opts.TTL)*jitter)
}

var errLost = errors.New("rules were lost")

// look finds every rule of a store that may be about a call.
func look(ctx context.Context, store Store, k Key) (list []leveled, found []Found, err error) {
	list, global := names(k.Subject, k.Capability, k.Tool)
	plain := make([]Name, len(list))
	for i := range list {
		plain[i] = list[i].Name
	}
	if global > 0 {
		if found, err = ask(ctx, store, k.Tenant, plain[:global]); err != nil {
			return nil, nil, err
		}
	}
	all, err := ask(ctx, store, "", plain[global:])
	return list, append(found, all...), err
}

func ask(ctx context.Context, store Store, tenant string, names []Name) ([]Found, error) {
	found, err := store.Find(ctx, tenant, names)
	if err == nil && len(found) != len(names) {
		err = errors.New("not as many answers as questions")
	}
	if err != nil {
		return nil, fmt.Errorf("find rules: %w", err)
	}
	return found, nil
}

// Changed is told of each change of the rules, in any order, once or more.
func (d *Decider) Changed(c Change) { d.cache.forget(c) }

// Confirmed is told whenever the store has said that no change is missing. Follow does both.
func (d *Decider) Confirmed() { d.hear(d.now()) }

func (d *Decider) hear(at int64) {
	d.heard.Store(at)
	d.follows.Do(func() { close(d.following) })
}
