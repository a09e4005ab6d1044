package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// flapping is a replica's view of a store whose connections break again and again.
type flapping struct {
	replica
	away func(since time.Duration) bool // the store cannot be reached
	from time.Time
}

// Exchange implements ratelimit.Store.
func (f flapping) Exchange(ctx context.Context, of ratelimit.Owner, asks []ratelimit.Demand) ([]ratelimit.Grant,
	error) {
	if f.away(time.Since(f.from)) {
		return nil, errUnavailable
	}
	return f.replica.Exchange(ctx, of, asks)
}

// TestNeverMoreThanTheBoundWhileTheStoreFlaps: replicas admit at most the bound of doc.go, whatever happens to all of
// their connections, and nearly all of it. A replica that alone lacks the store uses its share besides, until the store
// is back and charges it.
func TestNeverMoreThanTheBoundWhileTheStoreFlaps(t *testing.T) {
	t.Parallel()
	const rate, d = 100, 40 * time.Second
	every := func(period, away time.Duration) func(time.Duration) bool {
		return func(since time.Duration) bool { return since%period >= period-away }
	}
	never := func(time.Duration) bool { return false }
	for name, tt := range map[string]struct {
		away        func(time.Duration) bool
		delay, vary time.Duration
		one         time.Duration // the longest time for which the first replica alone lacks the store; 0: all do
	}{
		"cut every 2 s":      {away: every(2*time.Second, 100*time.Millisecond)},
		"away for 2 of 4 s":  {away: every(4*time.Second, 2*time.Second)},
		"away for 9 of 10 s": {away: every(10*time.Second, 9*time.Second)},
		"late":               {away: never, delay: 60 * time.Millisecond, vary: 120 * time.Millisecond},
		"late, and cut every 2 s": {away: every(2*time.Second, 300*time.Millisecond), delay: 60 * time.Millisecond,
			vary: 120 * time.Millisecond},
		"one away for 2 of 4 s":    {away: every(4*time.Second, 2*time.Second), one: 2 * time.Second},
		"one away for 100 of 2000": {away: every(2*time.Second, 100*time.Millisecond), one: 100 * time.Millisecond},
	} {
		for _, b := range []tenant.Bounds{{CallsPerSecond: rate, Burst: rate},
			{CallsPerSecond: rate, Burst: rate / 10}} {
			for _, replicas := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s, burst %d, replicas %d", name, b.Burst, replicas), func(t *testing.T) {
					t.Parallel()
					check.Bubble(t, func(t *testing.T) {
						rng := rand.New(rand.NewPCG(uint64(replicas), 31))
						w := &cluster{model: newModel(), settings: settings(b), takes: time.Millisecond}
						var mu sync.Mutex
						w.model.delay = func() time.Duration {
							mu.Lock()
							defer mu.Unlock()
							return tt.delay + time.Duration(rng.Int64N(int64(max(tt.vary, 1))))
						}
						for i := range replicas {
							view := flapping{w.model.replica(string(rune('a' + i))), tt.away, time.Now()}
							if tt.one > 0 && i > 0 {
								view.away = never
							}
							l := ratelimit.New(ratelimit.Config{Store: view, Replicas: func() int { return replicas }})
							defer run(l)()
							w.replicas, w.demand = append(w.replicas, l), append(w.demand, 3*rate)
						}
						w.live(rand.New(rand.NewPCG(1, 32)), d)
						most := float64(max(rate/4, 1)*replicas) + rate/float64(replicas)*tt.one.Seconds()
						over := inWindows(w.admitted, float64(b.Burst), rate)
						t.Logf("%.1f calls per second, %.1f beyond burst and rate",
							float64(len(w.admitted))/d.Seconds(), over)
						if over > most {
							t.Errorf("%v calls beyond burst and rate, want %v at most; %.1f per second", over, most,
								float64(len(w.admitted))/d.Seconds())
						}
						if n, least := float64(len(w.admitted)), rate*d.Seconds()*0.7; n < least {
							t.Errorf("%v calls, want %v at least", n, least)
						}
					})
				})
			}
		}
	}
}
