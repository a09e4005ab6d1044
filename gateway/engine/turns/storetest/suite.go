// Package storetest has the tests that every turns.Store passes. How turns are shared by tenants is left to tests of
// the stores.
package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Suite returns the tests.
func Suite() contract.Suite[turns.Store] {
	return contract.Suite[turns.Store]{
		"one ticket has the turn": testTurns,
		"one claim has the lease": testLease,
		"changes are notified":    testWatch,
	}
}

func ticket(id string) *turns.Ticket {
	return &turns.Ticket{Engine: "engine-1", Tenant: "acme", ID: id, Lease: time.Hour, MaxWaiting: 2}
}

func wait(t *testing.T, s turns.Store, k *turns.Ticket, want turns.State) {
	t.Helper()
	got, err := s.Wait(t.Context(), k)
	if err != nil || got.State != want || want == turns.Waiting && (got.Seq <= 0 || got.Left <= 0) {
		t.Errorf("ticket %s: %+v, %v, want %v", k.ID, got, err, want)
	}
	k.Seq = got.Seq
}

// leave ends a ticket, twice as on a Cluster.
func leave(t *testing.T, s turns.Store, k *turns.Ticket, held bool) {
	t.Helper()
	for range 2 {
		check.Must(t, s.Leave(t.Context(), k, held))
	}
}

func testTurns(t *testing.T, open func() turns.Store) {
	a, b := open(), open()
	first, second, third, fourth := ticket("t1"), ticket("t2"), ticket("t3"), ticket("t4")
	wait(t, a, first, turns.Granted)
	wait(t, b, second, turns.Waiting)
	wait(t, a, first, turns.Granted)
	wait(t, a, third, turns.Waiting)
	wait(t, b, fourth, turns.Full)
	leave(t, a, third, false)
	wait(t, b, fourth, turns.Waiting)
	check.Must(t, a.Hold(t.Context(), first))
	leave(t, a, first, true)
	wait(t, a, fourth, turns.Waiting)
	wait(t, b, second, turns.Granted)
	leave(t, b, second, true)
	wait(t, b, fourth, turns.Granted)
}

func testLease(t *testing.T, open func() turns.Store) {
	a, b := open(), open()
	one := &turns.LeaseRequest{Engine: "engine-1", ID: "a", Who: "ann of acme", Lease: time.Hour}
	other := &turns.LeaseRequest{Engine: "engine-1", ID: "b", Lease: time.Hour}
	expect := func(what string, s turns.Store, c *turns.LeaseRequest, want bool) {
		t.Helper()
		if got, err := s.Acquire(t.Context(), c); err != nil || got != want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	expect("the first", a, one, true)
	expect("the first, again", a, one, true)
	expect("another", b, other, false)
	check.Must(t, b.Release(t.Context(), other))
	expect("the holder after a release by another", a, one, true)
	other.Takeover = true
	expect("a takeover", b, other, true)
	expect("the former holder", a, one, false)
	check.Must(t, a.Release(t.Context(), one))
	other.Takeover = false
	expect("the holder after a takeover", b, other, true)
	check.Must(t, b.Release(t.Context(), other))
	expect("a released lease", a, one, true)
}

func testWatch(t *testing.T, open func() turns.Store) {
	s := open()
	ctx, cancel := context.WithCancel(t.Context())
	told, connected := make(chan string, 100), make(chan struct{}, 100)
	var watching sync.WaitGroup
	defer check.Ended(t, &watching, "the watch to stop")
	defer cancel()
	watching.Go(func() {
		open().Watch(ctx, func(id string) { told <- id }, func() { connected <- struct{}{} })
	})
	check.Received(t, connected, "the subscription")
	first, second := ticket("t1"), ticket("t2")
	wait(t, s, first, turns.Granted)
	wait(t, s, second, turns.Waiting)
	leave(t, s, first, true)
	if got := check.Received(t, told, "the next turn"); got != "t2" {
		t.Errorf("%q has the turn", got)
	}
	for _, id := range []string{"x", "x", "y"} {
		_, err := s.Acquire(ctx, &turns.LeaseRequest{Engine: "engine-1", ID: id, Lease: time.Hour, Takeover: true})
		check.Must(t, err)
	}
	for got := ""; got != "x"; { // a notification of the turn may be repeated
		if got = check.Received(t, told, "the lost lease"); got != "x" && got != "t2" {
			t.Errorf("%q has lost its lease", got)
		}
	}
}
