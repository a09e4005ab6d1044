package mcpsession_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/testkit/check"
)

// store is a Store of one level, which counts its reads.
type store struct {
	level   string
	uris    []string
	err     error
	reads   int
	during  func() // called by the next read of the level; nil means nothing
	changed func(mcpsession.Change)
	missed  func()
	watches chan struct{}
}

func (s *store) Level(context.Context, mcpsession.Key) (string, error) {
	s.reads++
	level, err := s.level, s.err
	if during := s.during; during != nil {
		s.during = nil
		during()
	}
	return level, err
}

func (s *store) SetLevel(_ context.Context, _ mcpsession.Key, level string) error {
	s.level = level
	return s.err
}

func (s *store) URIs(context.Context, mcpsession.Key) ([]string, error) { return s.uris, s.err }

func (s *store) Subscribe(_ context.Context, _ mcpsession.Key, uri string) error {
	s.uris = append(s.uris, uri)
	return s.err
}

func (s *store) Unsubscribe(_ context.Context, _ mcpsession.Key, uri string) error {
	s.uris = slices.DeleteFunc(s.uris, func(u string) bool { return u == uri })
	return s.err
}

func (s *store) Watch(ctx context.Context, changed func(mcpsession.Change), missed func()) {
	s.changed, s.missed = changed, missed
	close(s.watches)
	<-ctx.Done()
}

// TestLevelInMemory: a level is read once, and again after it was set here, or after a change may have been missed. One
// that was set at another replica is not read. While the store is unavailable, the last one counts.
func TestLevelInMemory(t *testing.T) {
	t.Parallel()
	of := &store{watches: make(chan struct{})}
	s := mcpsession.New(of)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	check.Received(t, of.watches, "the watch")
	key := mcpsession.Key{Tenant: "acme", ID: "s"}
	want := func(level string, reads int) {
		t.Helper()
		for range 3 {
			if got := s.Level(t.Context(), key); got != level || of.reads != reads {
				t.Errorf("%q after %d reads; want %q after %d", got, of.reads, level, reads)
			}
		}
	}
	want("", 1)
	check.Must(t, s.SetLevel(t.Context(), key, "info"))
	want("info", 2)
	check.Must(t, s.SetLevel(t.Context(), key, "info")) // changes nothing, and is not sent to other replicas
	want("info", 2)
	of.changed(mcpsession.Change{Key: mcpsession.Key{Tenant: "acme", ID: "other"}, Level: "error"})
	want("info", 2)
	of.changed(mcpsession.Change{Key: key})
	want("info", 2)
	of.level = "error"
	of.changed(mcpsession.Change{Key: key, Level: "error"})
	want("error", 2)
	of.level = "debug"
	of.missed()
	want("debug", 3)
	of.missed()
	of.level, of.err = "", errors.New("unavailable")
	want("debug", 4)
	stop()
	check.Received(t, ended, "the end")
}

// TestLevelsThatChangeDuringARead: a level that was read from the store before another replica has set one is not kept.
func TestLevelsThatChangeDuringARead(t *testing.T) {
	t.Parallel()
	key := mcpsession.Key{Tenant: "acme", ID: "s"}
	of := &store{level: "info", watches: make(chan struct{})}
	s := mcpsession.New(of)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	check.Received(t, of.watches, "the watch")
	of.during = func() { of.changed(mcpsession.Change{Key: key, Level: "error"}) }
	if got := s.Level(t.Context(), key); got != "info" {
		t.Errorf("the call that reads the level gets %q", got)
	}
	if got := s.Level(t.Context(), key); got != "error" || of.reads != 1 {
		t.Errorf("the next call gets %q, after %d reads", got, of.reads)
	}
	stop()
	check.Ended(t, &running, "the watch to stop")
}

// TestStreamsFollowTheirSession: a stream is notified of changes of its session's subscriptions at any replica, and
// when changes may have been missed, until it leaves. Changes of levels and of other sessions do not concern it.
func TestStreamsFollowTheirSession(t *testing.T) {
	t.Parallel()
	of := &store{watches: make(chan struct{})}
	s := mcpsession.New(of)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	check.Received(t, of.watches, "the watch")
	key := mcpsession.Key{Tenant: "acme", ID: "s"}
	first, second := 0, 0
	leaveFirst := s.Stream(key.ID, func() { first++ })
	leaveSecond := s.Stream(key.ID, func() { second++ })
	want := func(what string, n, m int) {
		t.Helper()
		if first != n || second != m {
			t.Errorf("%s: the streams are notified %d and %d times, want %d and %d", what, first, second, n, m)
		}
	}
	of.changed(mcpsession.Change{Key: key})
	want("a change at another replica", 1, 1)
	of.changed(mcpsession.Change{Key: key, Level: "info"})
	of.changed(mcpsession.Change{Key: mcpsession.Key{Tenant: "acme", ID: "other"}})
	want("other changes", 1, 1)
	of.missed()
	want("an interruption", 2, 2)
	leaveFirst()
	check.Must(t, s.Subscribe(t.Context(), key, "a://b"))
	want("a change here, without the first stream", 2, 3)
	leaveSecond()
	check.Must(t, s.Unsubscribe(t.Context(), key, "a://b"))
	want("without streams", 2, 3)
	stop()
	check.Ended(t, &running, "the watch to stop")
}
