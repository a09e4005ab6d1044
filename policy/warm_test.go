package policy_test

import (
	"context"
	"fmt"
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

// remembered is a policy.Recent in memory.
type remembered struct {
	mu   sync.Mutex
	keys []policy.Key
}

func (r *remembered) Save(ctx context.Context, keys []policy.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(slices.Clone(keys), r.keys...)
	return nil
}

func (r *remembered) Load(_ context.Context, most int) ([]policy.Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys[:min(most, len(r.keys))]), nil
}

func keyOf(c *call.Call) policy.Key {
	return policy.Key{
		Subject: policy.Subject{Tenant: c.Tenant, User: c.User, Agent: c.Agent}, Capability: c.Capability, Tool: c.Tool,
	}
}

// everybody returns a store that remembers all callers.
var everybody = func() *remembered { //nolint:gochecknoglobals // read-only
	r := &remembered{}
	for i := range 32 {
		bit := func(n int, one, other string) string {
			if i>>n&1 == 0 {
				return one
			}
			return other
		}
		r.keys = append(r.keys, policy.Key{Subject: policy.Subject{
			Tenant: bit(0, "t1", "t2"), User: bit(1, "", "u"), Agent: bit(2, "", "a"),
		},
			Capability: bit(3, "c", "d"), Tool: bit(4, "x", "y")})
	}
	return r
}()

// TestAReplicaThatStarts: a replica that starts fetches the decisions of another one with a few queries.
func TestAReplicaThatStarts(t *testing.T) {
	t.Parallel()
	store, shadow, recent := &memory{}, &memory{}, &remembered{}
	store.set("acme", tenantAllows, call.Allow)
	store.set("", policy.Name{Capability: policy.Any, Tool: "zap"}, call.Ask)
	shadow.set("acme", policy.Name{User: "user-7", Capability: policy.Any, Tool: policy.Any}, call.Block)
	options := policy.Options{Store: store, Shadow: shadow, Entries: 16_000}
	old := newDecider(t, options)
	var calls []call.Call
	for i := range 900 {
		c := call.Call{
			Tenant: [...]string{"acme", "other"}[i%2], User: fmt.Sprint("user-", i), Capability: "weather",
			Tool: [...]string{"forecast", "zap", "x"}[i%3],
		}
		_, _ = both(t, old, &c)
		calls = append(calls, c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	old.PersistRecent(ctx, recent) // returns because ctx has ended
	before := store.questions()
	fresh := newDecider(t, options)
	if n, err := fresh.Warm(t.Context(), recent); n != len(calls) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if n := store.questions() - before; n > 30 {
		t.Errorf("%d questions", n)
	}
	for i := range calls {
		want, _ := old.Decide(&calls[i])
		if got, known := fresh.Decide(&calls[i]); !known || got != want {
			t.Fatalf("%+v: %+v, %v; it was %+v", calls[i], got, known, want)
		}
	}
}

// TestWhatIsRememberedIsBounded: at most a thousand keys are remembered, the most recent ones.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	t.Parallel()
	now, recent := clocktest.New(time.Time{}), &remembered{}
	d := newDecider(t, policy.Options{Store: &memory{}, Entries: 16_000, TTL: time.Minute, Now: now.Now})
	for i := range 2000 {
		if i == 1000 {
			now.Add(time.Minute)
			d.Synced()
		}
		c := aCall
		c.User = fmt.Sprint(i)
		_, _ = both(t, d, &c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.PersistRecent(ctx, recent)
	if len(recent.keys) != 1000 {
		t.Fatalf("%d keys", len(recent.keys))
	}
	for _, k := range recent.keys {
		if len(k.User) < 4 {
			t.Fatalf("user %s has not called for a minute", k.User)
		}
	}
}

// TestAChangeWhileWarming: results of queries from before a change are not cached.
func TestAChangeWhileWarming(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		store := &memory{gate: make(chan struct{})}
		store.set("acme", tenantAllows, call.Allow)
		d := newDecider(t, policy.Options{Store: store})
		var warming sync.WaitGroup
		warming.Go(func() { _, _ = d.Warm(t.Context(), &remembered{keys: []policy.Key{keyOf(&aCall)}}) })
		synctest.Wait()
		d.Invalidate(policy.Change{Tenant: "acme", Name: tenantAllows})
		close(store.gate)
		warming.Wait()
		if got, known := d.Decide(&aCall); known {
			t.Errorf("kept %+v", got)
		}
	})
}

// TestWarmingEnds: a replica's start does not wait for an unavailable store.
func TestWarmingEnds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		d, err := policy.New(policy.Options{Store: &memory{}, Entries: 16})
		check.Must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if n, err := d.Warm(ctx, everybody); n != 0 || err == nil || time.Since(began) != 2*time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(began))
		}
	})
}
