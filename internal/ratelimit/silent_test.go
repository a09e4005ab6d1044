package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// begin makes calls that continue, as many of most as are admitted.
func begin(l *ratelimit.Limiter, s *tenant.Settings, most int) (running []*ratelimit.Permit) {
	for range most {
		p := new(ratelimit.Permit)
		if try(l, s, call.Call{}, p) != nil {
			l.Release(0, p)
			break
		}
		running = append(running, p)
	}
	return running
}

// TestPlacesWhileTheStoreIsSilent: calls that run when it becomes silent count at all replicas that know of them;
// after their end each replica has its share.
func TestPlacesWhileTheStoreIsSilent(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m, s := newModel(), settings(tenant.Bounds{Concurrent: 10})
		var all []*ratelimit.Limiter
		for _, name := range []string{"a", "b", "c"} {
			l := ratelimit.New(ratelimit.Config{Store: m.replica(name), Replicas: func() int { return 3 }})
			defer run(l)()
			all = append(all, l)
		}
		synctest.Wait()
		long := begin(all[0], s, 20)
		if n := len(begin(all[1], s, 1)); len(long) != 10 || n != 0 {
			t.Fatalf("%d calls at one replica, %d at another", len(long), n)
		}
		m.mu.Lock()
		m.unavailable = true
		m.mu.Unlock()
		pass(time.Second)
		heard, unheard := begin(all[1], s, 20), begin(all[2], s, 20)
		if len(heard) != 0 || len(unheard) != 1 {
			t.Errorf("beside 10 calls %d at a replica that knows of them, %d at another; want none and 1", len(heard),
				len(unheard))
		}
		for _, p := range append(long, unheard...) {
			all[0].Release(0, p)
		}
		pass(7 * time.Second)
		for i, l := range all {
			if n := len(begin(l, s, 20)); n != 3 {
				t.Errorf("replica %d may make %d calls, want its share, 3", i, n)
			}
		}
	})
}

// TestTheStoreIsSilentAgain: permits of others count as after the first silence: a replica that does not know of them
// begins with a fraction of its share.
func TestTheStoreIsSilentAgain(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m, s := newModel(), settings(tenant.Bounds{Concurrent: 30})
		l := ratelimit.New(ratelimit.Config{Store: m.replica("a"), Replicas: func() int { return 3 }})
		defer run(l)()
		synctest.Wait()
		for _, silent := range []bool{true, false, true} {
			m.mu.Lock()
			m.unavailable = silent
			m.mu.Unlock()
			most := 20
			if !silent {
				most = 1
			}
			running := begin(l, s, most)
			if len(running) != 1 {
				t.Errorf("silent %t: %d calls, want 1", silent, len(running))
			}
			for _, p := range running {
				l.Release(0, p)
			}
			pass(20 * time.Second) // permits have expired
		}
	})
}
