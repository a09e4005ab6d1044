// Package storetest has the tests that every mcpsession.Store passes.
package storetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Suite returns the tests.
func Suite() contract.Suite[mcpsession.Store] {
	return contract.Suite[mcpsession.Store]{
		"a level is that of one session":  testLevel,
		"a tenant has a limit of its own": testLimit,
		"no owner has all sessions":       testShare,
		"a session has its subscriptions": testURIs,
		"subscriptions have limits":       testURILimits,
		"other replicas are notified":     testWatch,
	}
}

// key returns the key of a session, whose owner has no other.
func key(tenant, uid, id string) mcpsession.Key {
	return mcpsession.Key{Tenant: tenant, UID: uid, ID: id, Owner: id}
}

// owned returns the key of a session of an owner with others.
func owned(owner, id string) mcpsession.Key {
	k := key("acme", "1", id)
	k.Owner = owner
	return k
}

// want compares the level of a session.
func want(t *testing.T, s mcpsession.Store, of mcpsession.Key, level string) {
	t.Helper()
	if got, err := s.Level(t.Context(), of); err != nil || got != level {
		t.Errorf("%+v: %q, %v; want %q", of, got, err, level)
	}
}

func testLevel(t *testing.T, open func() mcpsession.Store) {
	a, b := open(), open()
	want(t, a, key("acme", "1", "s"), "")
	check.Must(t, a.SetLevel(t.Context(), key("acme", "1", "s"), "info"))
	want(t, b, key("acme", "1", "s"), "info")
	check.Must(t, b.SetLevel(t.Context(), key("acme", "1", "s"), "error"))
	want(t, a, key("acme", "1", "s"), "error")
	for _, other := range []mcpsession.Key{key("acme", "1", "other"), key("acme", "2", "s"), key("acme", "", "s"),
		key("globex", "1", "s")} {
		want(t, a, other, "")
	}
}

func testLimit(t *testing.T, open func() mcpsession.Store) {
	s := open()
	for i := range mcpsession.MaxSessions {
		check.Must(t, s.SetLevel(t.Context(), key("acme", "1", strconv.Itoa(i)), "info"))
	}
	if err := s.SetLevel(t.Context(), key("acme", "1", "more"), "info"); !errors.Is(err, mcpsession.ErrFull) {
		t.Errorf("a session too many: %v", err)
	}
	want(t, s, key("acme", "1", "more"), "")
	check.Must(t, s.SetLevel(t.Context(), key("acme", "1", "7"), "error"))
	want(t, s, key("acme", "1", "7"), "error")
	check.Must(t, s.SetLevel(t.Context(), key("globex", "1", "more"), "info"))
	check.Must(t, s.SetLevel(t.Context(), key("acme", "2", "more"), "info"))
}

// testShare: one owner has at most four fifths of a tenant's sessions, and others find room, also after that.
func testShare(t *testing.T, open func() mcpsession.Store) {
	s := open()
	const share = mcpsession.MaxSessions / 5 * 4
	for name, set := range map[string]func(mcpsession.Key) error{
		"levels":        func(k mcpsession.Key) error { return s.SetLevel(t.Context(), k, "info") },
		"subscriptions": func(k mcpsession.Key) error { return s.Subscribe(t.Context(), k, "a://b") },
	} {
		for i := range share {
			if err := set(owned("heavy", strconv.Itoa(i))); err != nil {
				t.Fatalf("%s: session %d: %v", name, i, err)
			}
		}
		if err := set(owned("heavy", "more")); !errors.Is(err, mcpsession.ErrFull) {
			t.Errorf("%s: a session too many of the owner: %v", name, err)
		}
		check.Must(t, set(owned("heavy", "7")))
		check.Must(t, set(owned("light", "a")))
		check.Must(t, set(owned("light", "b")))
	}
	check.Must(t, s.Unsubscribe(t.Context(), owned("light", "a"), "a://b"))
	check.Must(t, s.Unsubscribe(t.Context(), owned("light", "b"), "a://b"))
	check.Must(t, s.Unsubscribe(t.Context(), owned("heavy", "7"), "a://b"))
	check.Must(t, s.Subscribe(t.Context(), owned("heavy", "more"), "a://b"))
}

// wantURIs compares the subscriptions of a session.
func wantURIs(t *testing.T, s mcpsession.Store, of mcpsession.Key, want ...string) {
	t.Helper()
	got, err := s.URIs(t.Context(), of)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v: %q, %v; want %q", of, got, err, want)
	}
}

func testURIs(t *testing.T, open func() mcpsession.Store) {
	a, b := open(), open()
	of := key("acme", "1", "s")
	wantURIs(t, a, of)
	for _, uri := range []string{"a://b", "a://c", "a://b"} {
		check.Must(t, a.Subscribe(t.Context(), of, uri))
	}
	wantURIs(t, b, of, "a://b", "a://c")
	for _, other := range []mcpsession.Key{key("acme", "1", "other"), key("acme", "2", "s"), key("acme", "", "s"),
		key("globex", "1", "s")} {
		wantURIs(t, a, other)
	}
	check.Must(t, b.Unsubscribe(t.Context(), of, "a://b"))
	check.Must(t, b.Unsubscribe(t.Context(), of, "a://none"))
	wantURIs(t, a, of, "a://c")
	want(t, a, of, "")
}

func testURILimits(t *testing.T, open func() mcpsession.Store) {
	s := open()
	full := func(of mcpsession.Key, uri string) {
		t.Helper()
		if err := s.Subscribe(t.Context(), of, uri); !errors.Is(err, mcpsession.ErrFull) {
			t.Errorf("a subscription too many: %v", err)
		}
	}
	of := key("acme", "1", "many")
	for i := range mcpsession.MaxURIs {
		check.Must(t, s.Subscribe(t.Context(), of, strconv.Itoa(i)))
	}
	full(of, "more")
	check.Must(t, s.Subscribe(t.Context(), of, "7"))
	check.Must(t, s.Unsubscribe(t.Context(), of, "7"))
	check.Must(t, s.Subscribe(t.Context(), of, "more"))
	long := key("acme", "1", "long")
	check.Must(t, s.Subscribe(t.Context(), long, strings.Repeat("a", mcpsession.MaxURIBytes-1)))
	full(long, "bb")
	check.Must(t, s.Subscribe(t.Context(), long, "b"))
	for i := range mcpsession.MaxSessions - 2 {
		check.Must(t, s.Subscribe(t.Context(), key("acme", "1", strconv.Itoa(i)), "a"))
	}
	full(key("acme", "1", "one"), "a")
	check.Must(t, s.Subscribe(t.Context(), of, "more"))
	check.Must(t, s.Subscribe(t.Context(), key("acme", "2", "one"), "a"))
	for i := range mcpsession.MaxURIs { // a session without subscriptions does not count
		check.Must(t, s.Unsubscribe(t.Context(), of, strconv.Itoa(i)))
	}
	check.Must(t, s.Unsubscribe(t.Context(), of, "more"))
	check.Must(t, s.Subscribe(t.Context(), key("acme", "1", "one"), "a"))
}

func testWatch(t *testing.T, open func() mcpsession.Store) {
	a, b := open(), open()
	ctx, stop := context.WithCancel(t.Context())
	missed, changed := make(chan struct{}, 10), make(chan mcpsession.Change, 10)
	var watching sync.WaitGroup
	watching.Go(func() {
		b.Watch(ctx, func(c mcpsession.Change) { changed <- c }, func() { missed <- struct{}{} })
	})
	check.Received(t, missed, "the connection")
	check.Must(t, a.SetLevel(ctx, key("acme", "1", "s"), "info"))
	check.Must(t, a.Subscribe(ctx, key("acme", "1", "u"), "a://b"))
	check.Must(t, a.Unsubscribe(ctx, key("acme", "1", "v"), "a://b"))
	for _, want := range []mcpsession.Change{{Key: key("acme", "1", "s"), Level: "info"}, {Key: key("acme", "1", "u")},
		{Key: key("acme", "1", "v")}} {
		want.Owner = "" // is not published
		if c := check.Received(t, changed, "the change"); c != want {
			t.Errorf("%+v; want %+v", c, want)
		}
	}
	stop()
	check.Ended(t, &watching, "the watch to stop")
}
