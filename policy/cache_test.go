package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/policy"
)

var tenantAllows = policy.Name{Capability: "weather", Tool: "forecast"}

// both decides as the gateway does: from the cache, and after a miss from the store.
func both(t *testing.T, d *policy.Decider, c *call.Call) (policy.Decision, *call.Refusal) {
	t.Helper()
	if decision, ok := d.Decide(c); ok {
		return decision, nil
	}
	return d.Fetch(t.Context(), c)
}

func TestADecisionIsCached(t *testing.T) {
	t.Parallel()
	for _, verdict := range []call.Verdict{call.Allow, call.Block} { // with a rule, and without
		store := &memory{}
		if verdict == call.Allow {
			store.set("acme", tenantAllows, verdict)
		}
		d := newDecider(t, policy.Options{Store: store})
		if _, ok := d.Decide(&aCall); ok {
			t.Error("known before it was asked for")
		}
		for range 10 {
			if got, refusal := both(t, d, &aCall); refusal != nil || got.Verdict != verdict {
				t.Errorf("got %+v, %v", got, refusal)
			}
		}
		if got, refusal := d.Fetch(t.Context(), &aCall); refusal != nil || !got.Cached { // as checks of arguments do
			t.Errorf("asked again: %+v, %v", got, refusal)
		}
		if n := store.questions(); n != 2 { // the tenant's and the global rules
			t.Errorf("%d questions", n)
		}
		if s := d.Stats(); s.Misses != 1 || s.Failures != 0 || s.Entries != 1 {
			t.Errorf("%+v", s)
		}
		other := aCall
		other.Tenant = "other"
		if _, ok := d.Decide(&other); ok {
			t.Error("another tenant was answered from this one's entry")
		}
	}
}

func TestEntriesEnd(t *testing.T) {
	t.Parallel()
	store, now := &memory{}, clocktest.New(time.Time{})
	d := newDecider(t, policy.Options{Store: store, TTL: time.Minute, Now: now.Now})
	_, _ = both(t, d, &aCall)
	for range 47 {
		now.Add(time.Second)
		d.Synced()
		if _, ok := d.Decide(&aCall); !ok {
			t.Fatal("ended before four fifths of its time")
		}
	}
	for range 26 {
		now.Add(time.Second)
		d.Synced()
	}
	if _, ok := d.Decide(&aCall); ok {
		t.Error("still there after six fifths of its time")
	}
}

// TestDecideAt: a decision at a time that the caller has read is the one of that time.
func TestDecideAt(t *testing.T) {
	t.Parallel()
	d := newDecider(t, policy.Options{Store: &memory{}, TTL: time.Hour, MaxStale: 2 * time.Hour})
	_, _ = both(t, d, &aCall)
	now := time.Now()
	for at, want := range map[time.Time]bool{{}: true, now: true, now.Add(-time.Second): true,
		now.Add(time.Hour): true, now.Add(3 * time.Hour): false} {
		if _, ok := d.DecideAt(&aCall, at); ok != want {
			t.Errorf("at %v: known %v", at, ok)
		}
	}
}

// TestTheStoreIsUnavailable: cached decisions are served for a bounded time; without a cached decision a call is
// rejected.
func TestTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	store, now := &memory{}, clocktest.New(time.Time{})
	store.set("acme", tenantAllows, call.Allow)
	d := newDecider(t, policy.Options{Store: store, TTL: time.Minute, MaxStale: 10 * time.Minute, Now: now.Now})
	_, _ = both(t, d, &aCall)
	store.leave(true)
	other := aCall
	other.Tool = "alerts"
	for range 10 {
		now.Add(time.Minute)
		if got, refusal := both(t, d, &aCall); refusal != nil || got.Verdict != call.Allow || !got.Cached {
			t.Fatalf("known: got %+v, %v", got, refusal)
		}
		if got, refusal := both(t, d, &other); refusal == nil || refusal.Kind != call.Unavailable {
			t.Fatalf("unknown: got %+v, %v", got, refusal)
		}
	}
	now.Add(time.Second)
	if got, refusal := both(t, d, &aCall); refusal == nil {
		t.Errorf("too old: got %+v", got)
	}
	store.leave(false)
	d.Synced()
	if got, refusal := both(t, d, &aCall); refusal != nil || got.Verdict != call.Allow {
		t.Errorf("the store is back: got %+v, %v", got, refusal)
	}
}

func TestAChangeIsSeen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]policy.Change{
		"the rule":        {Tenant: "acme", Name: tenantAllows},
		"a wider rule":    {Tenant: "acme", Name: policy.Name{User: "ann", Capability: "*", Tool: "*"}},
		"a global rule":   {Name: policy.Name{Capability: "*", Tool: "forecast"}},
		"everything":      {Everything: true},
		"another's":       {Tenant: "other", Name: tenantAllows},
		"another tool's":  {Tenant: "acme", Name: policy.Name{Capability: "weather", Tool: "alerts"}},
		"another agent's": {Tenant: "acme", Name: policy.Name{Agent: "other", Capability: "*", Tool: "*"}},
	} {
		d := newDecider(t, policy.Options{Store: &memory{}})
		_, _ = both(t, d, &aCall)
		d.Invalidate(change)
		_, kept := d.Decide(&aCall)
		if kept != (name == "another's" || name == "another tool's" || name == "another agent's") {
			t.Errorf("%s: still in the cache: %v", name, kept)
		}
	}
}

// TestAMissIsAskedOnce: a thousand calls that wait for one decision cause one query.
func TestAMissIsAskedOnce(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &memory{gate: make(chan struct{})}
		store.set("acme", tenantAllows, call.Allow)
		d := newDecider(t, policy.Options{Store: store})
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if got, refusal := d.Fetch(t.Context(), &aCall); refusal != nil || got.Verdict != call.Allow {
					t.Errorf("got %+v, %v", got, refusal)
				}
			})
		}
		synctest.Wait()
		close(store.gate)
		all.Wait()
		if n := store.questions(); n != 2 {
			t.Errorf("%d questions", n)
		}
	})
}

// TestAChangeMeanwhile: the result of a query from before a change is neither cached nor given to later calls.
func TestAChangeMeanwhile(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} { // whether the response to the earlier query arrives first
		t.Run(fmt.Sprint(early), func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) { changeMeanwhile(t, early) })
		})
	}
}

func changeMeanwhile(t *testing.T, early bool) {
	store := &memory{gate: make(chan struct{})}
	store.set("acme", tenantAllows, call.Allow)
	d := newDecider(t, policy.Options{Store: store})
	var asking sync.WaitGroup
	asking.Go(func() { _, _ = d.Fetch(t.Context(), &aCall) })
	synctest.Wait()
	before := store.gate
	store.setGate(make(chan struct{}))
	store.set("acme", tenantAllows, call.Block)
	d.Invalidate(policy.Change{Tenant: "acme", Name: tenantAllows})
	asking.Go(func() {
		if got, refusal := d.Fetch(t.Context(), &aCall); refusal != nil || got.Verdict != call.Block {
			t.Errorf("asked after the change: %+v, %v", got, refusal)
		}
	})
	synctest.Wait()
	after := store.gate
	store.setGate(nil)
	answers := []chan struct{}{before, after}
	if !early {
		slices.Reverse(answers)
	}
	for _, answer := range answers {
		close(answer)
		synctest.Wait()
	}
	asking.Wait()
	if got, ok := d.Decide(&aCall); ok && got.Verdict != call.Block {
		t.Errorf("kept %+v, %v", got, ok)
	}
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &memory{gate: make(chan struct{})}
		d := newDecider(t, policy.Options{Store: store, Timeout: 2 * time.Second})
		began := time.Now()
		if _, refusal := d.Fetch(t.Context(), &aCall); refusal == nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", refusal, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, refusal := d.Fetch(ctx, &aCall); refusal == nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", refusal, time.Since(began))
		}
		elapse(2 * time.Second) // until the query without waiting calls has ended
	})
}

// deaf is a store whose queries ignore the end of their context.
type deaf struct{ *memory }

func (d deaf) Find(_ context.Context, tenant string, names []policy.Name) ([]policy.Found, error) {
	return d.memory.Find(context.Background(), tenant, names)
}

// TestAStoreThatGoesOn: a store that ignores the end of its context does not delay calls, even calls without a
// deadline.
func TestAStoreThatGoesOn(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := deaf{&memory{gate: make(chan struct{})}}
		d := newDecider(t, policy.Options{Store: store, Timeout: time.Second})
		began := time.Now()
		if _, refusal := d.Fetch(t.Context(), &aCall); refusal == nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", refusal, time.Since(began))
		}
		close(store.gate)
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	d := newDecider(t, policy.Options{Store: &memory{}, Entries: 160})
	for i := range 5000 {
		c := aCall
		c.Tool = fmt.Sprint("tool-", i)
		_, _ = both(t, d, &c)
	}
	if n := d.Stats().Entries; n > 160 {
		t.Errorf("%d entries", n)
	}
}

// lateDecider has a store, the expected decisions, and a decider that is notified of changes late or never, as over a
// channel that loses messages. Its feed reports the losses that it notices.
type lateDecider struct {
	t       *testing.T
	random  *rand.Rand
	store   *memory
	shadow  *memory // candidate rules
	decider *policy.Decider
	clock   *clocktest.Clock
	pending []policy.Change
	lost    bool
}

// TestNothingIsAllowedThatRulesForbid plays random days: rules and candidates are set and deleted, entries evicted,
// changes delivered late or lost, and the store is unavailable at times. After a change is delivered, or its loss
// noticed, every decision follows the current rules; while the store is available every call gets one.
func TestNothingIsAllowedThatRulesForbid(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &lateDecider{
				t: t, random: rand.New(rand.NewPCG(seed, 1)), store: &memory{}, shadow: &memory{},
				clock: clocktest.New(time.Unix(1e9, 0)),
			}
			w.decider = newDecider(t, policy.Options{
				Store: w.store, Shadow: w.shadow, Entries: 32, TTL: 20 * time.Second, MaxStale: 30 * time.Second,
				Now: w.clock.Now,
			})
			for range 400 {
				w.step()
			}
		})
	}
}

func (w *lateDecider) step() {
	switch n := w.random.IntN(20); {
	case n < 5:
		w.change()
	case n < 7:
		w.tell()
	case n == 7 && len(w.pending) > 0:
		w.pending, w.lost = w.pending[1:], true
	case n == 8:
		w.shadow.leave(!w.store.unavailable)
		w.store.leave(!w.store.unavailable)
	case n == 10:
		_, _ = w.decider.Warm(w.t.Context(), everybody)
	case n == 9:
		w.clock.Add(time.Duration(w.random.IntN(15)) * time.Second)
	default:
		w.ask()
	}
}

func (w *lateDecider) pick(of ...string) string { return of[w.random.IntN(len(of))] }

func (w *lateDecider) change() {
	if w.store.unavailable {
		return
	}
	p := place{w.pick("", "t1", "t2"), policy.Name{Capability: w.pick("c", "d", "*"), Tool: w.pick("x", "y", "*")}}
	if p.tenant != "" {
		p.name.User, p.name.Agent = w.pick("", "u"), w.pick("", "a")
	}
	rules := w.store
	if w.random.IntN(3) == 0 {
		rules = w.shadow
	}
	if w.random.IntN(3) == 0 {
		rules.remove(p.tenant, p.name)
	} else {
		rules.set(p.tenant, p.name, call.Verdict(w.random.IntN(3)))
	}
	w.pending = append(w.pending, policy.Change{Tenant: p.tenant, Name: p.name})
}

// tell runs one round of the feed: it delivers changes, and reports a loss after a gap.
func (w *lateDecider) tell() {
	if w.store.unavailable {
		return
	}
	if w.lost {
		w.decider.Invalidate(policy.Change{Everything: true})
	}
	for _, c := range w.pending {
		w.decider.Invalidate(c)
	}
	w.pending, w.lost = nil, false
	w.decider.Synced()
}

func (w *lateDecider) ask() {
	c := call.Call{
		Tenant: w.pick("t1", "t2"), User: w.pick("", "u"), Agent: w.pick("", "a"), Capability: w.pick("c", "d"),
		Tool: w.pick("x", "y"),
	}
	got, refusal := both(w.t, w.decider, &c)
	if refusal != nil {
		if !w.store.unavailable {
			w.t.Fatalf("%+v is refused although the store is there: %v", c, refusal)
		}
		return
	}
	if len(w.pending) > 0 || w.lost {
		return // a change is in transit
	}
	fresh := newDecider(w.t, policy.Options{Store: &memory{rules: w.store.rules},
		Shadow: &memory{rules: w.shadow.rules}})
	want, refusal := fresh.Fetch(w.t.Context(), &c)
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	if got.Cached = false; got != want {
		w.t.Fatalf("%+v: got %+v, want %+v", c, got, want)
	}
}
