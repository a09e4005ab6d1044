package policy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy"
)

// TestWhatIsUsedStays: entries in repeated use are not evicted by entries that are used once.
func TestWhatIsUsedStays(t *testing.T) {
	t.Parallel()
	store := &memory{}
	d := newDecider(t, policy.Options{Store: store, Entries: 1600})
	for i := range 10_000 {
		once := aCall
		once.User = fmt.Sprint("once-", i)
		_, _ = both(t, d, &once)
		if i%20 == 0 {
			_, _ = both(t, d, &aCall)
		}
	}
	if n := store.questions(); n != 2*10_001 {
		t.Errorf("%d questions of 10,000 callers and one", n/2)
	}
}

// TestEveryKeyIsFoundAgain: every key is found again, also with many collisions and arbitrary strings. Two keys with
// equal concatenations are different.
func TestEveryKeyIsFoundAgain(t *testing.T) {
	t.Parallel()
	for range 20 {
		d := newDecider(t, policy.Options{Store: &memory{}, Entries: 16 * 32})
		var calls []call.Call
		for i := range 160 {
			long := strings.Repeat("x", i*i/30)
			calls = append(calls, call.Call{Tenant: "t" + long, User: fmt.Sprint(i), Agent: long, Capability: "c",
				Tool: "t"})
		}
		calls = append(calls, call.Call{Tenant: "ab", User: "c"}, call.Call{Tenant: "a", User: "bc"},
			call.Call{Tenant: "a", User: "b", Agent: "c"}, call.Call{})
		for i := range calls {
			if got, _ := both(t, d, &calls[i]); got.Cached {
				t.Fatalf("%+v is known before it was asked for", calls[i])
			}
		}
		for i := range calls {
			bytes := len(calls[i].Tenant) + len(calls[i].Agent)
			if _, known := d.Decide(&calls[i]); known != (bytes < 1190) { // longer keys are not cached
				t.Fatalf("call %d, with words of %d bytes: known %v", i, bytes, known)
			}
		}
		d.Invalidate(policy.Change{Everything: true})
		for i := range calls {
			if _, known := d.Decide(&calls[i]); known {
				t.Fatalf("%+v is known after everything has changed", calls[i])
			}
		}
		if n := d.Stats().Entries; n != 0 {
			t.Fatalf("%d entries", n)
		}
	}
}

// TestTheCacheIsUsedByMany reads in many goroutines while rules change and entries are evicted.
func TestTheCacheIsUsedByMany(t *testing.T) {
	t.Parallel()
	store := &memory{}
	d := newDecider(t, policy.Options{Store: store, Entries: 160})
	store.set("even", policy.Name{Capability: policy.Any, Tool: policy.Any}, call.Allow)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 3000 {
				c := call.Call{
					Tenant: [...]string{"even", "odd"}[i%2], User: fmt.Sprint(i * (g + 1) % 300), Capability: "weather",
					Tool: "forecast",
				}
				want := call.Verdict(0)
				if i%2 == 0 {
					want = call.Allow
				}
				if got, refusal := both(t, d, &c); refusal != nil || got.Verdict != want {
					t.Errorf("%+v: %+v, %v", c, got, refusal)
				}
				if i%50 == 0 {
					d.Invalidate(policy.Change{
						Tenant: c.Tenant, Name: policy.Name{User: c.User, Capability: policy.Any, Tool: policy.Any},
					})
				}
			}
		})
	}
	all.Wait()
}

// TestOneTenantDoesNotFillTheCache: calls of ever new users of one tenant evict only entries of this tenant.
func TestOneTenantDoesNotFillTheCache(t *testing.T) {
	t.Parallel()
	d := newDecider(t, policy.Options{Store: &memory{}, Entries: 1600})
	var light []call.Call
	for i := range 300 {
		c := call.Call{Tenant: "light", User: fmt.Sprint(i), Capability: "weather", Tool: "forecast"}
		light = append(light, c)
		_, _ = both(t, d, &c)
	}
	for i := range 10_000 {
		c := call.Call{Tenant: "heavy", User: fmt.Sprint(i), Capability: "weather", Tool: "forecast"}
		_, _ = both(t, d, &c)
	}
	for i := range light {
		if _, known := d.Decide(&light[i]); !known {
			t.Fatalf("call %d of another tenant is not known any more", i)
		}
	}
	if n := d.Stats().Entries; n != 1600 {
		t.Errorf("%d entries", n)
	}
}
