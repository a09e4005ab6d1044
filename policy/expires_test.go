package policy_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/policy"
)

// TestARuleEndsExactly: the decision of an expired rule is not used, whether it is cached, or the store is silent or
// unavailable. Then the next rule decides; if the store is unavailable, the call is rejected.
func TestARuleEndsExactly(t *testing.T) {
	t.Parallel()
	now := clocktest.New(time.Now())
	store := &memory{}
	d := newDecider(t, policy.Options{Store: store, TTL: time.Hour, MaxStale: 10 * time.Hour, Now: now.Now})
	c := call.Call{Tenant: "acme", User: "ann", Capability: "caps", Tool: "echo"}
	name := policy.Name{User: "ann", Capability: "caps", Tool: "echo"}
	store.set("acme", policy.Name{Capability: "caps", Tool: "echo"}, call.Ask)
	store.setFound("acme", name, policy.Found{Present: true, Verdict: call.Allow,
		Expires: now.Now().Add(10 * time.Minute)})
	d.Synced()
	decide := func() call.Verdict {
		t.Helper()
		got, refusal := d.Fetch(t.Context(), &c)
		if refusal != nil {
			t.Fatal(refusal)
		}
		return got.Verdict
	}
	if got := decide(); got != call.Allow {
		t.Fatal(got)
	}
	now.Add(10*time.Minute - 1) // no news from the store for almost ten minutes
	if got, known := d.Decide(&c); !known || got.Verdict != call.Allow || !got.Cached {
		t.Fatal(got, known)
	}
	now.Add(1)
	if got, known := d.Decide(&c); known {
		t.Fatalf("%v after its end", got.Verdict)
	}
	store.leave(true)
	if got, refusal := d.Fetch(t.Context(), &c); refusal == nil {
		t.Fatalf("%v after its end, without the store", got.Verdict)
	}
	store.leave(false)
	if got := decide(); got != call.Ask {
		t.Fatal(got)
	}
}

// TestAWarmedRuleEndsExactly: a decision that was cached at the start of a replica expires with its rule, too.
func TestAWarmedRuleEndsExactly(t *testing.T) {
	t.Parallel()
	now := clocktest.New(time.Now())
	store := &memory{}
	d := newDecider(t, policy.Options{Store: store, TTL: time.Hour, Now: now.Now})
	store.setFound("acme", tenantAllows,
		policy.Found{Present: true, Verdict: call.Allow, Expires: now.Now().Add(time.Minute)})
	if n, err := d.Warm(t.Context(), &remembered{keys: []policy.Key{keyOf(&aCall)}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	now.Add(time.Minute - 1)
	if got, known := d.Decide(&aCall); !known || got.Verdict != call.Allow {
		t.Errorf("before its end: %+v, known %t", got, known)
	}
	now.Add(1)
	if got, known := d.Decide(&aCall); known {
		t.Errorf("at its end: %+v", got)
	}
}

// TestARuleThatHasEndedIsAbsent: an expired rule is ignored in the store, while the cache warms, and in explanations.
func TestARuleThatHasEndedIsAbsent(t *testing.T) {
	t.Parallel()
	now := clocktest.New(time.Now())
	store := &memory{}
	d := newDecider(t, policy.Options{Store: store, Now: now.Now})
	c := call.Call{Tenant: "acme", User: "ann", Capability: "caps", Tool: "echo"}
	store.setFound("acme", policy.Name{User: "ann", Capability: "caps", Tool: "echo"},
		policy.Found{Present: true, Verdict: call.Allow, Expires: now.Now()})
	d.Synced()
	if got, refusal := d.Fetch(t.Context(), &c); refusal != nil || got.Level == policy.User {
		t.Errorf("%+v, %v", got, refusal)
	}
	got, looks, err := d.Explain(t.Context(), &c, store)
	if err != nil || got.Level == policy.User {
		t.Errorf("%+v, %v", got, err)
	}
	for _, l := range looks {
		if l.Matched && l.Level == policy.User {
			t.Errorf("%+v", l)
		}
	}
}
