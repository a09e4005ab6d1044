// Package storetest has the tests that every mcpsession.Store passes.
package storetest

import (
	"context"
	"errors"
	"strconv"
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
		"other replicas are notified":     testWatch,
	}
}

func key(tenant, uid, id string) mcpsession.Key {
	return mcpsession.Key{Tenant: tenant, UID: uid, ID: id}
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

func testWatch(t *testing.T, open func() mcpsession.Store) {
	a, b := open(), open()
	ctx, stop := context.WithCancel(t.Context())
	missed, changed := make(chan struct{}, 10), make(chan string, 10)
	var watching sync.WaitGroup
	watching.Go(func() {
		b.Watch(ctx, func(id string) { changed <- id }, func() { missed <- struct{}{} })
	})
	check.Received(t, missed, "the connection")
	check.Must(t, a.SetLevel(ctx, key("acme", "1", "s"), "info"))
	if id := check.Received(t, changed, "the change"); id != "s" {
		t.Errorf("%s has changed", id)
	}
	stop()
	check.Ended(t, &watching, "the watch to stop")
}
