package ratelimit_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// cluster is some replicas with one store in a synctest bubble, and their admitted calls.
type cluster struct {
	model    *model
	replicas []*ratelimit.Limiter
	settings *tenant.Settings
	demand   []float64     // calls per second of each
	takes    time.Duration // each call, at most

	mu       sync.Mutex
	admitted []time.Duration // times since the start
	by       []int           // how many, by replica
	most     int             // at once
	now      int
	begun    time.Time
}

// live makes calls for a while. The replicas' demands differ, and vary.
func (w *cluster) live(rng *rand.Rand, d time.Duration) {
	w.by, w.begun = make([]int, len(w.replicas)), time.Now()
	var callers sync.WaitGroup
	for i, l := range w.replicas {
		seed := rng.Uint64()
		callers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for time.Since(w.begun) < d {
				pass(time.Duration(rng.ExpFloat64() / w.demand[i] * float64(time.Second)))
				takes := time.Duration(1 + rng.Int64N(int64(w.takes)))
				callers.Go(func() { w.call(i, l, takes) })
			}
		})
	}
	callers.Wait()
}

func (w *cluster) call(i int, l *ratelimit.Limiter, takes time.Duration) {
	var p ratelimit.Permit
	if try(l, w.settings, call.Call{}, &p) != nil {
		return
	}
	w.mu.Lock()
	w.admitted = append(w.admitted, time.Since(w.begun))
	w.by[i]++
	w.now++
	w.most = max(w.most, w.now)
	w.mu.Unlock()
	pass(takes)
	w.mu.Lock()
	w.now--
	w.mu.Unlock()
	l.Release(0, &p)
}

// inWindows returns the greatest excess of the calls of any interval over the calls allowed in it.
func inWindows(at []time.Duration, burst, rate float64) (worst float64) {
	slices.Sort(at)
	// The calls from i to j are j-i+1, and there may be burst + rate·(at[j]-at[i]): the largest difference, in one
	// pass.
	best := 0.0
	for j, t := range at {
		level := float64(j) - rate*t.Seconds()
		if j == 0 || level < best {
			best = level
		}
		worst = max(worst, level-best+1-burst)
	}
	return worst
}

func newCluster(t *testing.T, rng *rand.Rand, replicas int, b tenant.Bounds) (w *cluster, stop func()) {
	t.Helper()
	w = &cluster{model: newModel(), settings: settings(b), takes: 100 * time.Millisecond}
	demands, rng := rng, rand.New(rand.NewPCG(rng.Uint64(), 2)) // rng is for the store alone
	slowest := 1 + rng.Int64N(int64(20*time.Millisecond))
	var mu sync.Mutex
	w.model.delay = func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rng.Int64N(slowest))
	}
	var stops []func()
	for i := range replicas {
		l := ratelimit.New(ratelimit.Config{Store: w.model.replica(string(rune('a' + i))), Replicas: func() int {
			return replicas
		}})
		w.replicas = append(w.replicas, l)
		stops = append(stops, run(l))
		w.demand = append(w.demand, float64(1+demands.IntN(400)))
	}
	return w, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// TestNeverMoreThanTheBound: with any demand, replicas admit at most the bound of doc.go, and with greater demand
// nearly all of that.
func TestNeverMoreThanTheBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		check.Bubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			replicas := 1 + rng.IntN(4)
			b := tenant.Bounds{CallsPerSecond: 1 + rng.IntN(300)}
			b.Burst = max(b.CallsPerSecond/10, 1) + rng.IntN(2*b.CallsPerSecond)
			w, stop := newCluster(t, rng, replicas, b)
			defer stop()
			const d = 10 * time.Second
			w.live(rng, d)
			rate, burst, lease := float64(b.CallsPerSecond), float64(b.Burst),
				float64(max(b.CallsPerSecond/4, 1)*replicas)
			if over := inWindows(w.admitted, burst, rate); over > lease {
				t.Errorf("seed %d: %v beyond burst and rate, leases of %d replicas are %v: %+v", seed, over, replicas,
					lease, b)
			}
			demand := 0.0
			for _, each := range w.demand {
				demand += each
			}
			if due := min(demand*0.9, rate) * d.Seconds() * 0.95; float64(len(w.admitted)) < due-5 {
				t.Errorf("seed %d: %d calls, want %v at least: %+v, demand %v", seed, len(w.admitted), due, b, w.demand)
			}
			for i, n := range w.by {
				if n == 0 {
					t.Errorf("seed %d: replica %d admitted none of %v calls per second, the others %v", seed, i,
						w.demand[i], w.by)
				}
			}
		})
	}
}

func TestNeverMoreAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		check.Bubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 8))
			b := tenant.Bounds{Concurrent: 1 + rng.IntN(40)}
			w, stop := newCluster(t, rng, 3, b)
			defer stop()
			w.live(rng, 10*time.Second)
			if w.most > b.Concurrent {
				t.Errorf("seed %d: %d calls at once, want %d", seed, w.most, b.Concurrent)
			}
			demand := (w.demand[0] + w.demand[1] + w.demand[2]) * 0.05 // of 50 ms each
			if demand > 2*float64(b.Concurrent) && w.most < b.Concurrent {
				t.Errorf("seed %d: %d calls at once of %d, of a demand for %v", seed, w.most, b.Concurrent, demand)
			}
			for i, n := range w.by {
				if n == 0 {
					t.Errorf("seed %d: replica %d got no place of %d, the others %v", seed, i, b.Concurrent, w.by)
				}
			}
		})
	}
}

func TestNeverMoreThanABudget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		check.Bubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 9))
			b := tenant.Bounds{PerDay: 10 + rng.IntN(2000)}
			w, stop := newCluster(t, rng, 3, b)
			defer stop()
			w.live(rng, 30*time.Second)
			demand := int(0.8 * 30 * (w.demand[0] + w.demand[1] + w.demand[2]))
			if n := len(w.admitted); n > b.PerDay || n < min(demand, b.PerDay) {
				t.Errorf("seed %d: %d calls of %d, of a demand for %d", seed, n, b.PerDay, demand)
			}
		})
	}
}

// TestWithoutTheStore: replicas use their share while it is unavailable or slow, and the use of budgets counts
// afterwards.
func TestWithoutTheStore(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]bool{"unavailable": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 10))
				w, stop := newCluster(t, rng, 3, tenant.Bounds{CallsPerSecond: 90, PerDay: 2000})
				defer stop()
				w.demand = []float64{200, 200, 5}
				w.live(rng, 2*time.Second)
				w.model.mu.Lock()
				if w.model.unavailable = !slow; slow {
					w.model.delay = func() time.Duration { return 300 * time.Millisecond }
				}
				w.model.mu.Unlock()
				before := len(w.admitted)
				w.live(rng, 10*time.Second)
				// two of three shares and 5 a second; a slow store still grants more
				n, least, most := len(w.admitted)-before, 600, 790
				if slow {
					least, most = 300, 1100
				}
				if n < least || n > most {
					t.Errorf("%d calls in 10 s, want %d to %d; by replica %v", n, least, most, w.by)
				}
				for i := range w.by {
					if w.by[i] < 30 {
						t.Errorf("replica %d admitted %d", i, w.by[i])
					}
				}
				w.model.mu.Lock()
				w.model.unavailable, w.model.delay = false, nil
				w.model.mu.Unlock()
				w.live(rng, 60*time.Second)
				if n := len(w.admitted); n > 2000+3*33 || n < 1900 {
					t.Errorf("%d calls of a budget of 2000", n)
				}
			})
		})
	}
}

// TestAnEmptyStore: the use of budgets is restored from the replicas, and token buckets are full.
func TestAnEmptyStore(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 11))
		w, stop := newCluster(t, rng, 3, tenant.Bounds{PerDay: 3000})
		defer stop()
		w.demand = []float64{100, 50, 10}
		w.live(rng, 10*time.Second)
		w.model.empty()
		w.live(rng, 20*time.Second)
		if n := len(w.admitted); n > 3000+3*47 || n < 2700 {
			t.Errorf("%d calls of a budget of 3000", n)
		}
	})
}
