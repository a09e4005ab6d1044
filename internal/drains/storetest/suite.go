// Package storetest has the tests that every drains.Store passes.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Suite returns the tests.
func Suite() contract.Suite[drains.Store] {
	return contract.Suite[drains.Store]{
		"drains are shared":        testShared,
		"a lost store is restored": testRestored,
		"drains are bounded":       testBounded,
		"changes are notified":     testWatch,
	}
}

var one, two = drains.Key{Capability: "weather", Addr: "10.0.0.1:50051"},
	drains.Key{Capability: "news", Addr: "[::1]:2"}

// exchange sends a report, and returns the view and the drained backends.
func exchange(t *testing.T, s drains.Store, r drains.Report) (v drains.View, drained string) {
	t.Helper()
	v, err := s.Exchange(t.Context(), r)
	if err != nil || !v.Written || v.Epoch == "" {
		t.Fatal(v, err)
	}
	var names []string
	for _, d := range v.Drains {
		names = append(names, strings.TrimRight(d.Capability+" "+d.By, " "))
	}
	slices.Sort(names)
	return v, strings.Join(names, ", ")
}

func testShared(t *testing.T, open func() drains.Store) {
	a, b := open(), open()
	const ann = "Ann 100%, issuer ü\n"
	first, drained := exchange(t, a, drains.Report{Replica: "a", Set: []drains.Key{one, two},
		Active: []drains.Drain{{Key: one, By: ann}}, Calls: map[drains.Key]int64{one: 2, two: 0}})
	if want := "news, weather " + strings.TrimRight(ann, " "); drained != want {
		t.Errorf("%q, want %q", drained, want)
	}
	view, again := exchange(t, b, drains.Report{Replica: "b", Epoch: first.Epoch, Calls: map[drains.Key]int64{one: 3}})
	if again != drained || view.Epoch != first.Epoch || time.Since(view.Drains[0].Since).Abs() > time.Hour {
		t.Errorf("another replica has %+v", view)
	}
	if got := fmt.Sprint(view.Calls["a"][one], view.Calls["b"][one], len(view.Calls["a"]), len(view.Calls["b"])); got !=
		"2 3 2 1" {
		t.Errorf("the calls are %v", view.Calls)
	}
	if _, drained = exchange(t, b, drains.Report{Replica: "b", Epoch: first.Epoch, End: []drains.Key{one},
		Leaving: true}); drained != "news" {
		t.Errorf("after the end of one: %q", drained)
	}
	if view, _ = exchange(t, a, drains.Report{Replica: "a", Epoch: first.Epoch}); len(view.Calls) != 1 {
		t.Errorf("the calls of a replica that left: %v", view.Calls)
	}
}

// testRestored: a store that has lost its content gets the drains in force from the replicas. A replica that missed the
// end of a drain does not restore it, and the name of an operator stays with the drain that it began.
func testRestored(t *testing.T, open func() drains.Store) {
	s := open()
	expect := func(want string, r drains.Report) {
		t.Helper()
		if _, got := exchange(t, s, r); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
	active := func(d ...drains.Drain) []drains.Drain { return d }
	expect("", drains.Report{Replica: "a", Epoch: "lost", End: []drains.Key{one}})
	expect("news", drains.Report{Replica: "b", Epoch: "lost",
		Active: active(drains.Drain{Key: one, Since: time.Now()}, drains.Drain{Key: two, Since: time.Now()})})
	expect("news, weather", drains.Report{Replica: "a", Set: []drains.Key{one}})
	expect("news, weather", drains.Report{Replica: "b", // the name of an earlier drain
		Active: active(drains.Drain{Key: one, Since: time.UnixMilli(1), By: "ann"})})
	again := drains.Report{Replica: "a", Set: []drains.Key{one}, Active: active(drains.Drain{Key: one, By: "bob"})}
	expect("news, weather bob", again)
	again.Active[0].By = "carol" // the operator of the repeated drain
	expect("news, weather bob", again)
}

func testBounded(t *testing.T, open func() drains.Store) {
	s := open()
	var keys []drains.Key
	for i := range drains.MaxDrains {
		keys = append(keys, drains.Key{Capability: "weather", Addr: fmt.Sprint("10.0.0.1:", i+1)})
	}
	if view, _ := exchange(t, s, drains.Report{Replica: "a", Set: keys}); view.Full || len(view.Drains) != len(keys) {
		t.Errorf("full %v, %d drains", view.Full, len(view.Drains))
	}
	view, _ := exchange(t, s, drains.Report{Replica: "a", Set: []drains.Key{two}})
	if !view.Full || len(view.Drains) != len(keys) {
		t.Errorf("full %v, %d drains", view.Full, len(view.Drains))
	}
}

func testWatch(t *testing.T, open func() drains.Store) {
	a, b := open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	notices := make(chan struct{}, 100)
	var watching sync.WaitGroup
	watching.Go(func() { b.Watch(ctx, func() { notices <- struct{}{} }) })
	check.Received(t, notices, "the subscription")
	exchange(t, a, drains.Report{Replica: "a", Set: []drains.Key{one}})
	check.Received(t, notices, "the drain")
	cancel()
	check.Ended(t, &watching, "the end of the watch")
}
