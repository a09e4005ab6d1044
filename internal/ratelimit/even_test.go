package ratelimit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestABurstAtAllReplicas: concurrent long calls at three replicas get even shares of the permits; a replica with all
// of the calls gets all permits.
func TestABurstAtAllReplicas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ calls, least []int }{
		"as many at each":  {[]int{40, 40, 40}, []int{16, 16, 16}},
		"few at one":       {[]int{40, 40, 4}, []int{16, 16, 4}},
		"at one alone":     {[]int{60, 0, 0}, []int{48, 0, 0}},
		"enough for all":   {[]int{30, 10, 8}, []int{16, 10, 8}},
		"fewer than parts": {[]int{5, 5, 5}, []int{5, 5, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				m, s := newModel(), settings(tenant.Bounds{Concurrent: 48})
				m.delay = func() time.Duration { return 2 * time.Millisecond }
				got := make([]int, 3)
				var callers sync.WaitGroup
				for i, n := range test.calls {
					l := ratelimit.New(ratelimit.Config{Store: m.replica(string(rune('a' + i))), Replicas: func() int {
						return 3
					}})
					defer run(l)()
					synctest.Wait()
					var mu sync.Mutex
					for range n {
						callers.Go(func() {
							pass(time.Duration(i) * 5 * time.Millisecond) // not quite the same moment
							if len(begin(l, s, 1)) == 1 {
								mu.Lock()
								defer mu.Unlock()
								got[i]++
							}
						})
					}
				}
				callers.Wait()
				sum := 0
				for i, n := range got {
					if sum += n; n < test.least[i] {
						t.Errorf("%v, want %v at least", got, test.least)
						break
					}
				}
				if sum > 48 {
					t.Errorf("%v: %d at once, of 48", got, sum)
				}
			})
		})
	}
}
