// Package storetest has the tests that every store of rules passes.
package storetest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
	"github.com/capgate/capgate/policy"
)

// Store is a policy.Store whose rules can be changed.
type Store interface {
	policy.Store
	Set(ctx context.Context, r policy.Rule) error
	Delete(ctx context.Context, tenant string, n policy.Name) (was bool, err error)
}

// Suite returns the tests.
func Suite() contract.Suite[Store] {
	return contract.Suite[Store]{"rules are shared": testShared, "rules expire": testExpiry}
}

// odd is the name of a rule with words that have a meaning in Redis or in keys.
var odd = policy.Name{User: "ann:{1}%\xff", Agent: "a\nb", Capability: "weather", Tool: policy.Any}

// plain is the name of a rule for all users.
var plain = policy.Name{Capability: "weather", Tool: "forecast"}

func rule(tenant string, n policy.Name, v call.Verdict) policy.Rule {
	return policy.Rule{Tenant: tenant, Name: n, Verdict: v, By: `an "admin"`}
}

func set(t *testing.T, s Store, r policy.Rule) {
	t.Helper()
	check.Must(t, s.Set(t.Context(), r))
}

func find(t *testing.T, s Store, tenant string, names ...policy.Name) []policy.Found {
	t.Helper()
	found, err := s.Find(t.Context(), tenant, names)
	check.Must(t, err)
	return found
}

func testShared(t *testing.T, open func() Store) {
	a, b := open(), open()
	set(t, a, rule("acme", odd, call.Ask))
	set(t, a, rule("", plain, call.Allow))
	want := []policy.Found{{Present: true, Verdict: call.Ask}, {}}
	if got := find(t, b, "acme", odd, plain); !reflect.DeepEqual(got, want) {
		t.Errorf("the tenant's: %+v", got)
	}
	want = []policy.Found{{}, {Present: true, Verdict: call.Allow}}
	if got := find(t, b, "", odd, plain); !reflect.DeepEqual(got, want) {
		t.Errorf("the global ones: %+v", got)
	}
	for _, other := range []string{"other", "acme:", "{acme}"} {
		if got := find(t, b, other, odd, plain); !reflect.DeepEqual(got, []policy.Found{{}, {}}) {
			t.Errorf("%s has the rules of another: %+v", other, got)
		}
	}
	set(t, b, rule("acme", odd, call.Block))
	if got := find(t, a, "acme", odd); got[0] != (policy.Found{Present: true}) {
		t.Errorf("changed: %+v", got)
	}
	if _, err := a.Delete(t.Context(), "acme", odd); err != nil { // it existed, unless a Cluster deleted it twice
		t.Error(err)
	}
	if was, err := a.Delete(t.Context(), "acme", odd); was || err != nil {
		t.Errorf("deleted again: %v, %v", was, err)
	}
	if got := find(t, b, "acme", odd); got[0].Present {
		t.Errorf("deleted, but there: %+v", got)
	}
}

func testExpiry(t *testing.T, open func() Store) {
	a, b, r := open(), open(), rule("acme", odd, call.Allow)
	r.Expires = time.Now().Add(time.Hour).Truncate(time.Millisecond)
	set(t, a, r)
	got := find(t, b, "acme", odd)[0]
	if !got.Expires.Equal(r.Expires) || got.Verdict != call.Allow {
		t.Errorf("%+v, want it to expire at %v", got, r.Expires)
	}
	set(t, b, rule("acme", odd, call.Allow))
	if got := find(t, a, "acme", odd)[0]; !got.Expires.IsZero() {
		t.Errorf("after a rule without an end: %+v", got)
	}
}
