package changefeed_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/lib/cache"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/testkit/check"
)

const maxStale = 10 * time.Minute

// store is a feed that a test controls.
type store struct {
	mu        sync.Mutex
	version   uint64
	silent    bool
	changed   func(uint64, string)
	connected func()
}

func (s *store) Watch(ctx context.Context, changed func(uint64, string), connected func()) {
	s.changed, s.connected = changed, connected
	<-ctx.Done()
}

func (s *store) Version(context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		return 0, errors.New("no answer")
	}
	return s.version, nil
}

// set sets the version, and whether the store answers. It delivers nothing.
func (s *store) set(version uint64, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.silent = version, silent
}

// change makes a change, and delivers it.
func (s *store) change(what string) {
	s.mu.Lock()
	s.version++
	version := s.version
	s.mu.Unlock()
	s.changed(version, what)
}

// replica is a cache that records what was invalidated.
type replica struct {
	*cache.Freshness

	mu      sync.Mutex
	changes []string // "*" means everything
}

func (r *replica) Invalidate(change string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, change)
}

func (r *replica) InvalidateAll() { r.Invalidate("*") }

// invalidated returns what was invalidated since the last call.
func (r *replica) invalidated() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.changes
	r.changes = nil
	return all
}

// running runs test beside a replica that has read a store at version 7.
func running(t *testing.T, test func(*testing.T, *store, *replica)) {
	t.Helper()
	check.Bubble(t, func(t *testing.T) {
		s, r := &store{version: 7}, &replica{Freshness: cache.NewFreshness(time.Hour, maxStale, nil)}
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			changefeed.Run(ctx, s, r, changefeed.Options{Patience: time.Second, MaxStale: maxStale})
		})
		elapse(time.Millisecond) // so that no test acts while a round begins
		if all := r.invalidated(); !slices.Equal(all, []string{"*"}) {
			t.Errorf("the first look invalidates %q", all)
		}
		test(t, s, r)
		cancel()
		watching.Wait()
	})
}

// elapse advances the time in a bubble of synctest, and waits for what happens then.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestChangeInvalidatesOneEntry at once, and no later look invalidates more.
func TestChangeInvalidatesOneEntry(t *testing.T) {
	t.Parallel()
	running(t, func(t *testing.T, s *store, r *replica) {
		s.change("a")
		if all := r.invalidated(); !slices.Equal(all, []string{"a"}) {
			t.Errorf("invalidated %q", all)
		}
		elapse(30 * time.Minute)
		if all := r.invalidated(); len(all) != 0 || r.Age() > 500*time.Millisecond {
			t.Errorf("half an hour later: invalidated %q, stale by %v", all, r.Age())
		}
	})
}

// TestLostChangeInvalidatesAll within a second.
func TestLostChangeInvalidatesAll(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*store){
		"no further change": func(s *store) {
			s.set(8, false)
			elapse(time.Second)
		},
		"further changes arrive": func(s *store) {
			s.set(8, false)
			for range 10 {
				s.change("other")
				elapse(100 * time.Millisecond)
			}
		},
		"a later one arrives first": func(s *store) {
			s.set(9, false)
			s.changed(9, "other")
			elapse(time.Second)
		},
		"the feed reconnects": func(s *store) {
			s.set(8, false)
			s.connected()
			synctest.Wait()
		},
		"the store was silent": func(s *store) {
			s.set(8, true)
			elapse(time.Minute)
			s.set(8, false)
			elapse(time.Second)
		},
		"a failover undid the last change": func(s *store) {
			s.set(6, false)
			elapse(time.Second)
		},
	} {
		running(t, func(t *testing.T, s *store, r *replica) {
			lose(s)
			all := slices.DeleteFunc(r.invalidated(), func(change string) bool { return change == "other" })
			if !slices.Equal(all, []string{"*"}) || r.Age() > time.Second {
				t.Errorf("%s: invalidated %q, stale by %v", name, all, r.Age())
			}
		})
	}
}

// TestChangesInAnyOrder: concurrent changes arrive in any order and twice, and some are in transit while the version is
// read. None counts as lost.
func TestChangesInAnyOrder(t *testing.T) {
	t.Parallel()
	running(t, func(t *testing.T, s *store, r *replica) {
		for version := uint64(9); version < 400; version += 2 {
			s.set(version, false)
			s.changed(version, "a")
			elapse(20 * time.Millisecond)
			s.changed(version-1, "a")
			s.changed(version-1, "a")
		}
		elapse(2 * time.Second)
		if all := r.invalidated(); slices.Contains(all, "*") || r.Age() > time.Second {
			t.Errorf("invalidated everything, or stale by %v", r.Age())
		}
	})
}

// TestSyncedOnlyWithAllChanges: while a change is in transit, the cache is in sync as of the time before it.
func TestSyncedOnlyWithAllChanges(t *testing.T) {
	t.Parallel()
	running(t, func(t *testing.T, s *store, r *replica) {
		elapse(100 * time.Millisecond)
		s.set(8, false)
		elapse(450 * time.Millisecond) // past one look, which gives the change another round
		if r.LastSync() >= int64(100*time.Millisecond) {
			t.Errorf("in sync as of %v, with a change of before that missing", time.Duration(r.LastSync()))
		}
		s.changed(8, "late")
		elapse(500 * time.Millisecond)
		if all := r.invalidated(); !slices.Equal(all, []string{"late"}) || r.Age() > 500*time.Millisecond {
			t.Errorf("invalidated %q, stale by %v", all, r.Age())
		}
	})
}

// TestStoreWithoutContent counts as one that has lost it for MaxStale, and then as an empty one, unless the content is
// restored.
func TestStoreWithoutContent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then    func(*store)
		changes []string
	}{
		"stays empty": {func(*store) { elapse(maxStale) }, []string{"*"}},
		"restored":    {func(s *store) { s.set(7, false); elapse(time.Second) }, nil},
		"changed":     {func(s *store) { s.set(1, false); elapse(time.Second) }, []string{"*"}},
	} {
		running(t, func(t *testing.T, s *store, r *replica) {
			s.set(0, false)
			elapse(time.Second)
			synced := r.LastSync()
			elapse(maxStale - time.Minute)
			if all := r.invalidated(); len(all) != 0 || !r.Lost() || r.LastSync() != synced {
				t.Errorf("%s: lost: invalidated %q, lost %v, in sync %v", name, all, r.Lost(), r.LastSync() != synced)
			}
			test.then(s)
			if all := r.invalidated(); !slices.Equal(all, test.changes) || r.Lost() || r.Age() > time.Second {
				t.Errorf("%s: then invalidated %q, lost %v, stale by %v", name, all, r.Lost(), r.Age())
			}
		})
	}
}

func TestContinues(t *testing.T) {
	t.Parallel()
	at := changefeed.Position{Epoch: "one", Version: 7}
	for p, want := range map[changefeed.Position]bool{
		at: true, {Epoch: "one", Version: 8}: true, {Epoch: "one", Version: 6}: false,
		{Epoch: "two", Version: 8}: false, {}: false,
	} {
		if p.Continues(at) != want {
			t.Errorf("%+v after %+v: %v", p, at, !want)
		}
	}
}

// TestPoll: a read follows at once, after each notification and signal, when the returned wait has passed, and after a
// panic.
func TestPoll(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var notify func()
		var reads atomic.Int64
		wake := make(chan struct{}, 1)
		var polling sync.WaitGroup
		polling.Go(func() {
			changefeed.Poll(ctx, "test", wake, func(ctx context.Context, changed func()) {
				notify = changed
				<-ctx.Done()
			}, func(context.Context) time.Duration {
				if reads.Add(1) == 4 {
					panic("a read that fails")
				}
				return time.Minute
			})
		})
		expect := func(after string, n int64) {
			t.Helper()
			if synctest.Wait(); reads.Load() != n {
				t.Errorf("after %s: %d reads, want %d", after, reads.Load(), n)
			}
		}
		expect("the beginning", 1)
		notify()
		expect("a notification", 2)
		wake <- struct{}{}
		expect("a signal", 3)
		elapse(time.Minute - time.Millisecond)
		expect("less than the wait", 3)
		elapse(2 * time.Millisecond)
		expect("the wait", 4)
		elapse(2 * time.Second)
		expect("a panic", 5)
		cancel()
		polling.Wait()
	})
}
