// Package storetest has the tests that every affinity.Store passes.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
	"github.com/capgate/capgate/router/affinity"
)

// Suite returns the tests. Each affinity.Store is of another replica.
func Suite() contract.Suite[affinity.Store] {
	return contract.Suite[affinity.Store]{
		"the first pin of a session stays": testFirst,
		"concurrent bindings agree":        testConcurrentBindings,
		"many sessions are bound at once":  testMany,
		"the users of pins are known":      testUsers,
		"one of many moves succeeds":       testMoves,
		"moves are notified":               testWatch,
		"pins expire":                      testExpiry,
		"artifacts have owners":            testOwners,
		"artifacts are located":            testArtifacts,
	}
}

// mine is the session of most tests.
var mine = affinity.Session{Tenant: "default", Capability: "caps", ID: "s:{1}\xff"}

// Binding returns the binding of a session to an address.
func Binding(s affinity.Session, addr string, moves uint64) affinity.Binding {
	return affinity.Binding{Session: s, Pin: affinity.Pin{Addr: addr, Moves: moves}, TTL: time.Minute}
}

// Bind binds one session.
func Bind(t *testing.T, s affinity.Store, b affinity.Binding) affinity.BindResult {
	t.Helper()
	got, err := s.Bind(t.Context(), []affinity.Binding{b})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	return got[0]
}

func testFirst(t *testing.T, open func() affinity.Store) {
	a, b := open(), open()
	want := affinity.Pin{Addr: "a:1"}
	if got := Bind(t, a, Binding(mine, "a:1", 0)); got.Pin != want || !got.New || got.Age != 0 {
		t.Errorf("the first: %+v", got)
	}
	for _, addr := range []string{"b:1", "a:1"} {
		for _, s := range []affinity.Store{a, b} {
			if got := Bind(t, s, Binding(mine, addr, 0)); got.Pin != want || got.New {
				t.Errorf("with %s: %+v", addr, got)
			}
		}
	}
	for _, other := range []affinity.Session{
		{Tenant: "other", Capability: mine.Capability, ID: mine.ID}, {Tenant: mine.Tenant, Capability: "other",
			ID: mine.ID},
		{Tenant: mine.Tenant, Capability: mine.Capability, ID: "other"},
	} {
		if got := Bind(t, b, Binding(other, "b:1", 0)); got.Pin.Addr != "b:1" || !got.New {
			t.Errorf("%v has the pin of another: %+v", other, got)
		}
	}
}

// testConcurrentBindings: of many concurrent bindings one is the first, and all return it.
func testConcurrentBindings(t *testing.T, open func() affinity.Store) {
	stores := []affinity.Store{open(), open(), open()}
	var wg sync.WaitGroup
	answers := make([]affinity.BindResult, 30)
	for i := range answers {
		wg.Go(func() { answers[i] = Bind(t, stores[i%3], Binding(mine, fmt.Sprintf("b%d:1", i), 0)) })
	}
	check.Ended(t, &wg, "the end of the bindings")
	first := 0
	for _, got := range answers {
		if got.New {
			first++
		}
		if got.Pin != answers[0].Pin {
			t.Errorf("%+v and %+v", got.Pin, answers[0].Pin)
		}
	}
	if first != 1 {
		t.Errorf("%d were the first", first)
	}
}

func testMany(t *testing.T, open func() affinity.Store) {
	a, b := open(), open()
	var all []affinity.Binding
	for i := range 200 {
		all = append(all, Binding(affinity.Session{Tenant: "default", Capability: "caps", ID: fmt.Sprint(i)}, "a:1",
			0))
	}
	Bind(t, b, Binding(all[7].Session, "b:1", 3))
	got, err := a.Bind(t.Context(), all)
	if err != nil || len(got) != len(all) {
		t.Fatal(len(got), err)
	}
	for i, bound := range got {
		want := affinity.BindResult{Pin: all[i].Pin, New: true, Users: affinity.NoGateway}
		if i == 7 {
			want = affinity.BindResult{Pin: affinity.Pin{Addr: "b:1", Moves: 3}}
			bound.Age = 0
		}
		if bound != want {
			t.Errorf("%d: %+v, want %+v", i, bound, want)
		}
	}
}

// testUsers: the store records which gateways may have used a pin, and returns that to those that read or move it.
func testUsers(t *testing.T, open func() affinity.Store) {
	a, b := open(), open()
	expect := func(what string, got affinity.BindResult, isNew bool, users affinity.Users) {
		t.Helper()
		if got.New != isNew || got.Users != users {
			t.Errorf("%s: %+v", what, got)
		}
	}
	move := func(s affinity.Store, addr string, moves uint64, from affinity.Pin,
		idle bool) affinity.BindResult {
		to := Binding(mine, addr, moves)
		to.Unused = idle
		got, err := s.Move(t.Context(), to, from)
		if err != nil {
			t.Error(err)
		}
		return got
	}
	first := affinity.Pin{Addr: "a:1"}
	expect("a makes it", Bind(t, a, Binding(mine, "a:1", 0)), true, affinity.NoGateway)
	expect("a again", Bind(t, a, Binding(mine, "a:1", 0)), false, affinity.ThisGateway)
	idle := Binding(mine, "a:1", 0)
	idle.Unused = true
	expect("b asks only", Bind(t, b, idle), false, affinity.OtherGateways)
	expect("a once more", Bind(t, a, Binding(mine, "a:1", 0)), false, affinity.ThisGateway)
	expect("b uses it", Bind(t, b, Binding(mine, "a:1", 0)), false, affinity.OtherGateways)
	expect("a is not the only one", Bind(t, a, Binding(mine, "a:1", 0)), false, affinity.OtherGateways)
	expect("a moves it, and tells of the loss", move(a, "b:1", 1, first, true), true, affinity.OtherGateways)
	expect("a asks that again", move(a, "b:1", 1, first, true), true, affinity.OtherGateways)
	second := affinity.Pin{Addr: "b:1", Moves: 1}
	expect("b comes too late, and is told of the new one", move(b, "c:1", 1, first, true), false,
		affinity.NoGateway)
	expect("a moves what b was told of", move(a, "c:1", 2, second, false), true, affinity.OtherGateways)
	third := affinity.Pin{Addr: "c:1", Moves: 2}
	expect("b moves what a uses", move(b, "", 3, third, true), true, affinity.OtherGateways)
	expect("nobody uses what is nowhere", move(a, "d:1", 4, affinity.Pin{Moves: 3}, false), true,
		affinity.NoGateway)
	expect("its only user moves it", move(a, "e:1", 5, affinity.Pin{Addr: "d:1", Moves: 4}, false), true,
		affinity.ThisGateway)
}

// testMoves: of many moves of a pin one succeeds, and stays successful when repeated.
func testMoves(t *testing.T, open func() affinity.Store) {
	stores := []affinity.Store{open(), open(), open()}
	from := Bind(t, stores[0], Binding(mine, "a:1", 0)).Pin
	move := func(s affinity.Store, addr string, moves uint64) affinity.BindResult {
		got, err := s.Move(t.Context(), Binding(mine, addr, moves), from)
		if err != nil {
			t.Error(err)
		}
		return got
	}
	var wg sync.WaitGroup
	answers := make([]affinity.BindResult, 3)
	for i := range answers {
		wg.Go(func() { answers[i] = move(stores[i], "b:1", 1) })
	}
	check.Ended(t, &wg, "the end of the moves")
	movers := 0
	for i, got := range answers {
		if got.Pin != (affinity.Pin{Addr: "b:1", Moves: 1}) {
			t.Errorf("%+v", got)
		}
		if again := move(stores[i], "b:1", 1); again.New != got.New || again.Pin != got.Pin {
			t.Errorf("asked again: %+v, before %+v", again, got)
		}
		if got.New {
			movers++
		}
	}
	if movers != 1 {
		t.Errorf("%d moved it", movers)
	}
	if got := move(stores[0], "c:1", 1); got.New || got.Pin.Addr != "b:1" {
		t.Errorf("from a pin that is not in force: %+v", got)
	}
	from = affinity.Pin{Addr: "b:1", Moves: 1}
	if got := move(stores[0], "", 2); !got.New || got.Pin != (affinity.Pin{Moves: 2}) {
		t.Errorf("to nowhere: %+v", got)
	}
	from = affinity.Pin{Moves: 2}
	if got := move(stores[1], "d:1", 3); !got.New || got.Pin != (affinity.Pin{Addr: "d:1", Moves: 3}) {
		t.Errorf("from nowhere: %+v", got)
	}
	mine := affinity.Session{Tenant: "default", Capability: "caps", ID: "never bound"}
	got, err := stores[0].Move(t.Context(), Binding(mine, "a:1", 5), affinity.Pin{Addr: "x:1"})
	if err != nil || !got.New || got.Pin != (affinity.Pin{Addr: "a:1", Moves: 5}) {
		t.Errorf("where there is none: %+v, %v", got, err)
	}
}

func testWatch(t *testing.T, open func() affinity.Store) {
	a, b := open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	type move struct {
		session affinity.Session
		pin     affinity.Pin
	}
	moves, missed, ended := make(chan move, 10), make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(ended)
		a.Watch(ctx, func(s affinity.Session, p affinity.Pin) {
			moves <- move{s, p}
		}, func() { missed <- struct{}{} })
	}()
	check.Received(t, missed, "the subscription")
	session := affinity.Session{Tenant: "t", Capability: "caps", ID: "ü\"1"}
	from := Bind(t, b, Binding(session, "a:1", 0)).Pin
	if _, err := b.Move(t.Context(), Binding(session, "b:1", 1), from); err != nil {
		t.Fatal(err)
	}
	if got := check.Received(t, moves, "the move"); got != (move{session, affinity.Pin{Addr: "b:1", Moves: 1}}) {
		t.Errorf("%+v", got)
	}
	cancel()
	check.Received(t, ended, "the end of the watch")
}

// testExpiry: a pin expires, unless it is bound again; then the session can get another one.
func testExpiry(t *testing.T, open func() affinity.Store) {
	s := open()
	short := Binding(mine, "a:1", 0)
	short.TTL = 300 * time.Millisecond
	Bind(t, s, short)
	check.Holds(t, "the pin to end", func() bool {
		other := Binding(mine, "b:1", 0)
		other.TTL = time.Millisecond
		return Bind(t, s, other).Pin.Addr == "b:1"
	})
}

// testOwners: a tenant does not get another one's artifact from a result, but it does by uploading the same.
func testOwners(t *testing.T, open func() affinity.Store) {
	s := open()
	holding := func(tenant, id string, sure bool) affinity.Location {
		return affinity.Location{Artifact: affinity.Artifact{Tenant: tenant, Capability: "caps", ID: id},
			Addr: "a:1", Authoritative: sure, OwnedOnly: true, TTL: time.Minute}
	}
	for i, step := range []struct {
		told []affinity.Location
		want []bool
	}{
		{[]affinity.Location{holding("a", "1", true), holding("a", "2", false), holding("b", "3", false)},
			[]bool{true, true, true}},
		{[]affinity.Location{holding("b", "1", false), holding("b", "2", false), holding("b", "3", false)},
			[]bool{false, false, true}},
		{[]affinity.Location{holding("b", "1", true), holding("a", "3", false), holding("a", "1", false)},
			[]bool{true, false, true}},
		{[]affinity.Location{holding("b", "1", false)}, []bool{false}}, // it owns it nevertheless
	} {
		if kept, err := s.StoreLocations(t.Context(), step.told); err != nil || !slices.Equal(kept, step.want) {
			t.Errorf("%d: %v, want %v: %v", i, kept, step.want, err)
		}
	}
	for _, test := range []struct{ tenant, id, want string }{{"a", "1", "a:1"}, {"b", "1", "a:1"},
		{"a", "2", "a:1"},
		{"b", "2", ""}, {"b", "3", "a:1"}, {"a", "3", ""}} {
		if got, err := s.Locate(t.Context(), holding(test.tenant, test.id, false).Artifact); got != test.want ||
			err != nil {
			t.Errorf("%s's %s is at %q, want %q: %v", test.tenant, test.id, got, test.want, err)
		}
	}
}

func testArtifacts(t *testing.T, open func() affinity.Store) {
	a, b := open(), open()
	file := func(id string) affinity.Artifact {
		return affinity.Artifact{Tenant: "default", Capability: "caps", ID: id}
	}
	holds := func(id, want string) {
		t.Helper()
		if got, err := b.Locate(t.Context(), file(id)); got != want || err != nil {
			t.Errorf("%s is at %q, want %q: %v", id, got, want, err)
		}
	}
	remember := func(h ...affinity.Location) {
		t.Helper()
		for i := range h {
			h[i].TTL = time.Minute
		}
		if _, err := a.StoreLocations(t.Context(), h); err != nil {
			t.Error(err)
		}
	}
	holds("1", "")
	remember(affinity.Location{Artifact: file("1"), Addr: "a:1"},
		affinity.Location{Artifact: file("2"), Addr: "b:1", Authoritative: true})
	holds("1", "a:1")
	holds("2", "b:1")
	remember(affinity.Location{Artifact: file("1"), Addr: "c:1"},
		affinity.Location{Artifact: file("2"), Addr: "c:1", Authoritative: true},
		affinity.Location{Artifact: file("3"), Addr: "c:1"})
	holds("1", "a:1") // an earlier location
	holds("2", "c:1") // an authoritative one
	holds("3", "c:1")
	if got, err := b.Locate(t.Context(), affinity.Artifact{Tenant: "other", Capability: "caps",
		ID: "1"}); got != "" || err != nil {
		t.Errorf("another tenant's: %q, %v", got, err)
	}
}
