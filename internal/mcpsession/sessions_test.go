package mcpsession_test

import (
	"context"
	"errors"
	"slices"
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
	changed func(mcpsession.Change)
	missed  func()
	watches chan struct{}
}

func (s *store) Level(context.Context, mcpsession.Key) (string, error) {
	s.reads++
	return s.level, s.err
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
	of.err = errors.New("unavailable")
	want("debug", 4)
	stop()
	check.Received(t, ended, "the end")
}
