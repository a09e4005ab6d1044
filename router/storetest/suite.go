// Package storetest has the tests that every router.PermitStore passes.
package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
	"github.com/capgate/capgate/router"
)

// Store is a router.PermitStore of one replica. Its permits and its turn last an hour after its last report.
type Store interface {
	router.PermitStore
	// SetLifetime changes that hour.
	SetLifetime(d time.Duration)
}

// Suite returns the tests. Each Store is of another replica.
func Suite() contract.Suite[Store] {
	return contract.Suite[Store]{
		"permits are granted in turn":                        testTurns,
		"backends are independent":                           testBackends,
		"an overtaken demand is refused":                     testOvertaken,
		"permits of a silent replica are free":               testExpiry,
		"a replica that was silent keeps the permits in use": testSilence,
		"waits and returns are notified":                     testNotices,
	}
}

// asker sends the demands of one replica.
type asker struct {
	Store

	t   *testing.T
	seq uint64
}

func askers(t *testing.T, open func() Store) (a, b *asker) {
	return &asker{Store: open(), t: t}, &asker{Store: open(), t: t}
}

// ask sends a demand for permits of a backend with 4 permits, unless the demand has another limit.
func (a *asker) ask(want router.Demand) router.Grant {
	a.t.Helper()
	a.seq++
	want.Seq, want.Addr = a.seq, "10.0.0.7:1"
	if want.Limit == 0 {
		want.Limit = 4
	}
	grants, err := a.Exchange(a.t.Context(), "weather", []router.Demand{want})
	check.Must(a.t, err)
	return grants[0]
}

func testTurns(t *testing.T, open func() Store) {
	a, b := askers(t, open)
	for i, step := range []struct {
		who  *asker
		want router.Demand
		get  router.Grant
	}{
		{a, router.Demand{Need: 1, Spare: 2}, router.Grant{Held: 3, Replicas: 1}},
		{b, router.Demand{Need: 1, Spare: 5}, router.Grant{Held: 1, Replicas: 2}},  // the last permit
		{b, router.Demand{Retain: 1, Need: 2}, router.Grant{Held: 1, Replicas: 2}}, // now b waits
		{a, router.Demand{Retain: 3, Spare: 1}, router.Grant{Held: 3, Waiting: 1, Replicas: 2}},
		{a, router.Demand{Retain: 2, Need: 1}, router.Grant{Held: 2, Waiting: 1, Replicas: 2}}, // b came first
		{b, router.Demand{Retain: 1, Need: 2}, router.Grant{Held: 2, Waiting: 1, Replicas: 2}}, // and waits anew
		{b, router.Demand{Retain: 1, Need: 2}, router.Grant{Held: 1, Waiting: 1, Replicas: 2}}, // behind a
		{a, router.Demand{Retain: 2, Need: 1}, router.Grant{Held: 3, Waiting: 1, Replicas: 2}},
		{b, router.Demand{}, router.Grant{Held: 0, Waiting: 0, Replicas: 2}},
		{a, router.Demand{Retain: 3, Limit: 2}, router.Grant{Held: 3, Replicas: 1}}, // retained permits stay
		{b, router.Demand{Need: 1, Limit: 2}, router.Grant{Held: 0, Replicas: 2}},   // above the limit
		{a, router.Demand{Retain: 0}, router.Grant{Held: 0, Waiting: 1, Replicas: 2}},
		{b, router.Demand{Need: 1, Limit: 2}, router.Grant{Held: 1, Replicas: 1}},
	} {
		if got := step.who.ask(step.want); got != step.get {
			t.Fatalf("step %d: %+v, want %+v", i, got, step.get)
		}
	}
	if a.Unavailable() {
		t.Error("a store that has answered counts as unavailable")
	}
}

func testBackends(t *testing.T, open func() Store) {
	a, b := open(), open()
	wants := []router.Demand{{Addr: "x:1", Limit: 1, Need: 1, Seq: 1}, {Addr: "y:1", Limit: 2, Need: 3, Seq: 2},
		{Addr: "{z}:1", Limit: 3, Spare: 3, Seq: 3}}
	for _, c := range []struct {
		of         Store
		capability string
		wants      []router.Demand
		held       string
	}{
		{a, "weather", wants, "[1 2 3]"}, {b, "news", wants, "[1 2 3]"}, {b, "weather", wants, "[0 0 0]"},
		{a, "weather", nil, "[]"},
	} {
		grants, err := c.of.Exchange(t.Context(), c.capability, c.wants)
		var held []int
		for _, g := range grants {
			held = append(held, g.Held)
		}
		if fmt.Sprint(held) != c.held || err != nil {
			t.Errorf("%s: %v, %v, want %s", c.capability, held, err, c.held)
		}
	}
}

func testOvertaken(t *testing.T, open func() Store) {
	a, b := askers(t, open)
	a.seq = 6
	if got := a.ask(router.Demand{Need: 1}); got.Held != 1 {
		t.Fatalf("%+v", got)
	}
	for _, seq := range []uint64{7, 6} {
		late := router.Demand{Addr: "10.0.0.7:1", Limit: 4, Need: 3, Seq: seq}
		if grants, err := a.Exchange(t.Context(), "weather", []router.Demand{late}); err == nil {
			t.Errorf("demand %d after 7: %+v, want an error", seq, grants)
		}
	}
	if got := b.ask(router.Demand{Need: 4}); got.Held != 3 {
		t.Errorf("another replica gets %+v, want 3 permits", got)
	}
}

func testExpiry(t *testing.T, open func() Store) {
	a, b := askers(t, open)
	a.SetLifetime(200 * time.Millisecond)
	if got := a.ask(router.Demand{Need: 4}); got.Held != 4 {
		t.Fatalf("%+v", got)
	}
	var got router.Grant
	check.Holds(t, "the permits of a to be free", func() bool {
		got = b.ask(router.Demand{Need: 1})
		return got.Held > 0
	})
	if got.Held != 1 || got.Replicas != 1 {
		t.Errorf("%+v", got)
	}
}

func testSilence(t *testing.T, open func() Store) {
	a, b := askers(t, open)
	a.SetLifetime(200 * time.Millisecond)
	if got := a.ask(router.Demand{Need: 1, Spare: 2}); got.Held != 3 {
		t.Fatalf("%+v", got)
	}
	check.Holds(t, "the permits of a to be free", func() bool { return b.ask(router.Demand{Need: 4}).Held == 4 })
	if got := a.ask(router.Demand{Used: 1, Retain: 3}); got.Held != 1 {
		t.Errorf("%+v", got)
	}
}

func testNotices(t *testing.T, open func() Store) {
	a, b := askers(t, open)
	ctx, cancel := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	defer check.Ended(t, &listening, "the listeners")
	defer cancel()
	heard := map[*asker]chan string{a: make(chan string, 1000), b: make(chan string, 1000)}
	for who, ch := range heard {
		listening.Go(func() { who.Listen(ctx, func(capability string) { ch <- capability }) })
	}
	ready := map[*asker]bool{}
	check.Holds(t, "both to listen", func() bool { // each begins to wait again and again
		for listener, other := range map[*asker]*asker{a: b, b: a} {
			other.ask(router.Demand{Need: 5})
			other.ask(router.Demand{})
			ready[listener] = ready[listener] || len(heard[listener]) > 0
		}
		return ready[a] && ready[b]
	})
	a.ask(router.Demand{Need: 4})
	drain(heard[a])
	b.ask(router.Demand{Need: 1})
	if got := check.Received(t, heard[a], "the notice that b waits"); got != "weather" {
		t.Errorf("notice of %q", got)
	}
	drain(heard[b])
	a.ask(router.Demand{Retain: 3})
	if got := check.Received(t, heard[b], "the notice that a returned one"); got != "weather" {
		t.Errorf("notice of %q", got)
	}
}

func drain(ch chan string) {
	for len(ch) > 0 {
		<-ch
	}
}
