package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
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
	synctest.Test(t, func(t *testing.T) {
		m, s := newModel(), settings(tenant.Bounds{Concurrent: 10})
		var all []*ratelimit.Limiter
		for _, name := range []string{"a", "b", "c"} {
			l := ratelimit.New(ratelimit.Config{Store: replica{m, name}, Replicas: func() int { return 3 }})
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
