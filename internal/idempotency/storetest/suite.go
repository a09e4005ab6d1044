// Package storetest has the tests that every idempotency.Store passes.
package storetest

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Suite returns the tests.
func Suite() contract.Suite[idempotency.Store] {
	return contract.Suite[idempotency.Store]{
		"a key has one owner": testOwner,
		"a lease ends":        testLease,
		"keys are forgotten":  testTTL,
	}
}

// Claim returns a claim whose lease outlives any test.
func Claim(id, token string) *idempotency.Claim {
	return &idempotency.Claim{Tenant: "acme", ID: id, Fingerprint: "print of " + id, Token: token, Lease: time.Hour,
		TTL: 2 * time.Hour, Limit: 100}
}

// Begin returns the state of a key.
func Begin(t *testing.T, s idempotency.Store, c *idempotency.Claim) idempotency.Found {
	t.Helper()
	f, err := s.Begin(t.Context(), c)
	check.Must(t, err)
	return f
}

func testOwner(t *testing.T, open func() idempotency.Store) {
	s, other, ctx := open(), open(), t.Context()
	mine, theirs := Claim("k", "mine"), Claim("k", "theirs")
	only := Claim("k", "only")
	only.Limit = 0
	expect := func(what string, of idempotency.Store, c *idempotency.Claim, want idempotency.State,
		answer string) {
		t.Helper()
		got := Begin(t, of, c)
		if got.State != want || string(got.Sealed) != answer || (want == idempotency.Running) != (got.Left > 0) {
			t.Errorf("%s: %+v, want %s", what, got, want)
		}
		if claimed := want != idempotency.None && want != idempotency.Full; claimed && got.Fingerprint != "print of k" {
			t.Errorf("%s: %+v", what, got)
		}
	}
	expect("a query", s, only, idempotency.None, "")
	expect("the first", s, mine, idempotency.Mine, "")
	expect("the first, again", s, mine, idempotency.Mine, "")
	expect("a repeat", other, theirs, idempotency.Running, "")
	check.Must(t, other.End(ctx, theirs, idempotency.Answered, []byte("theirs")))
	check.Must(t, other.Renew(ctx, theirs))
	expect("after an end by others", other, only, idempotency.Running, "")

	check.Must(t, s.End(ctx, mine, idempotency.None, nil))
	expect("a free key", other, theirs, idempotency.Mine, "")
	check.Must(t, s.End(ctx, mine, idempotency.None, nil))
	expect("a late claimant", s, mine, idempotency.Running, "")
	for range 2 {
		check.Must(t, other.End(ctx, theirs, idempotency.Answered, []byte("a\x00\xffz")))
	}
	expect("an answer", s, mine, idempotency.Answered, "a\x00\xffz")
	check.Must(t, s.Renew(ctx, mine))
	check.Must(t, other.Renew(ctx, theirs))
	expect("an answer, later", s, only, idempotency.Answered, "a\x00\xffz")

	for id, state := range map[string]idempotency.State{"large": idempotency.TooLarge,
		"doubt": idempotency.Unknown} {
		c := Claim(id, "mine")
		Begin(t, s, c)
		check.Must(t, s.End(ctx, c, state, nil))
		if got := Begin(t, other, Claim(id, "theirs")); got.State != state {
			t.Errorf("%s: %+v", id, got)
		}
	}
	elsewhere := Claim("k", "elsewhere")
	elsewhere.Tenant = "globex"
	expect("the same key of another tenant", s, elsewhere, idempotency.Mine, "")
}

// testLease: a claim without renewals becomes unknown, and the key is not claimed again. A late result of the call
// counts.
func testLease(t *testing.T, open func() idempotency.Store) {
	s := open()
	c, repeat := Claim("k", "mine"), Claim("k", "theirs")
	c.Lease = time.Millisecond
	Begin(t, s, c)
	check.Holds(t, "the lease to end", func() bool { return Begin(t, s, repeat).State == idempotency.Unknown })
	c.Lease = time.Hour
	check.Must(t, s.Renew(t.Context(), c))
	if got := Begin(t, s, repeat); got.State != idempotency.Running {
		t.Errorf("after a renewal: %+v", got)
	}
	check.Must(t, s.End(t.Context(), c, idempotency.Answered, []byte("late")))
	if got := Begin(t, s, repeat); got.State != idempotency.Answered || string(got.Sealed) != "late" {
		t.Errorf("%+v", got)
	}
}

func testTTL(t *testing.T, open func() idempotency.Store) {
	s := open()
	c, repeat := Claim("k", "mine"), Claim("k", "theirs")
	c.TTL, c.Lease, c.Limit = time.Second, time.Millisecond, 1
	Begin(t, s, c)
	check.Must(t, s.End(t.Context(), c, idempotency.Answered, []byte("a")))
	next := Claim("next", "mine")
	next.Limit = 1
	if got := Begin(t, s, next); got.State != idempotency.Full &&
		Begin(t, s, repeat).State == idempotency.Answered {
		t.Errorf("one too many: %+v", got)
	}
	elsewhere := *next
	elsewhere.Tenant = "globex"
	if got := Begin(t, s, &elsewhere); got.State != idempotency.Mine {
		t.Errorf("another tenant: %+v", got)
	}
	check.Holds(t, "the answer to be forgotten, and room for another", func() bool {
		return Begin(t, s, next).State == idempotency.Mine
	})

	repeat.Limit = 2
	check.Holds(t, "the key to be free", func() bool { return Begin(t, s, repeat).State == idempotency.Mine })
}
