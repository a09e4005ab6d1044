package router_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// Concurrent long calls at three replicas get even shares of the permits; a replica with all of the calls gets all
// permits.
func TestLimitOfABurstAtAllReplicas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ calls, least []int }{
		"as many at each":  {[]int{40, 40, 40}, []int{16, 16, 16}},
		"few at one":       {[]int{40, 40, 4}, []int{16, 16, 4}},
		"at one alone":     {[]int{60, 0, 0}, []int{48, 0, 0}},
		"enough for all":   {[]int{30, 10, 8}, []int{30, 10, 8}},
		"fewer than parts": {[]int{5, 5, 5}, []int{5, 5, 5}},
	} {
		for _, backends := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d backends", name, backends), func(t *testing.T) {
				t.Parallel()
				check.Bubble(t, func(t *testing.T) {
					board := newBoard()
					var replicas []*limited
					for i := range test.calls {
						replicas = append(replicas, newLimited(t, &replica{board: board, name: fmt.Sprint(i)},
							&concurrency{},
							router.Limit{PerBackend: 48 / backends, Queue: router.Queue{Wait: time.Hour}},
							named(backends)...))
					}
					synctest.Wait()
					var last time.Duration // that a call waited
					got := burst(replicas, test.calls, func(waited time.Duration) { last = max(last, waited) })
					all := 0
					for i, n := range got {
						if all += n; n < test.least[i] {
							t.Errorf("%v calls, want %v at least", got, test.least)
							break
						}
					}
					if all > 48 {
						t.Errorf("%v: %d at once, of 48", got, all)
					}
					if last > 200*time.Millisecond {
						t.Errorf("a call waited %v for a place that was free", last)
					}
					if exchanges, _ := board.traffic(); exchanges > 3*60 { // looks every 50 ms for a second
						t.Errorf("%d exchanges", exchanges)
					}
					for _, r := range replicas {
						r.end()
					}
				})
			})
		}
	}
}

// A replica that knows of no other gets all permits at once.
func TestLimitOfABurstAtALoneReplica(t *testing.T) {
	t.Parallel()
	for _, known := range []int{0, 1} {
		check.Bubble(t, func(t *testing.T) {
			r := newLimitedOf(t, func() int { return known }, &replica{board: newBoard(), name: "1"}, &concurrency{},
				router.Limit{PerBackend: 48}, named(1)...)
			synctest.Wait()
			got := burst([]*limited{r}, []int{60}, func(waited time.Duration) {
				if waited > 10*time.Millisecond { // a few exchanges of one
					t.Errorf("a call waited %v", waited)
				}
			})
			if got[0] != 48 {
				t.Errorf("%d calls of 48", got[0])
			}
			r.end()
		})
	}
}

// burst starts the given number of long calls at each replica, 5 ms after those at the previous one, and returns how
// many have a permit a second later. entered gets the wait of each, one at a time.
func burst(replicas []*limited, calls []int, entered func(waited time.Duration)) []int {
	var mu sync.Mutex
	got := make([]int, len(calls))
	for i, n := range calls {
		began := time.Now()
		for range n {
			replicas[i].start(router.PermitRequest{}, func(a router.PermitResult) {
				mu.Lock()
				defer mu.Unlock()
				if a.Refusal == nil {
					got[i]++
					entered(time.Since(began))
				}
			})
		}
		<-time.After(5 * time.Millisecond)
	}
	<-time.After(time.Second)
	mu.Lock()
	defer mu.Unlock()
	return append([]int(nil), got...)
}
