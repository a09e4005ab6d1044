package sim_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// replica simulates a gateway with a virtual Redis: a store, and the simulated part on top of it. It can crash and
// restart.
type replica[P any] struct {
	name  string
	w     *sim.Simulation
	redis *sim.Redis
	start func(ctx context.Context, s *redisstore.Store, name string) (part P, run func(context.Context))

	mu   sync.Mutex
	life *life[P] // nil if it is down
	n    int      // number of lives
	over bool     // it does not restart
	site *sim.Site
	end  context.CancelFunc // ends the last life
	all  sync.WaitGroup
}

// life is the time between a start and a crash.
type life[P any] struct {
	part P
	ctx  context.Context // ends with the life
}

func newReplica[P any](w *sim.Simulation, r *sim.Redis, name string,
	start func(ctx context.Context, s *redisstore.Store, name string) (P, func(context.Context))) *replica[P] {
	n := &replica[P]{name: name, w: w, redis: r, start: start}
	n.boot()
	return n
}

// boot starts it in the background, because Redis may not respond.
func (r *replica[P]) boot() {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.n++
	site, number := r.w.Site(r.name), r.n
	r.site = site
	ctx, end := context.WithCancel(context.Background())
	r.end = end
	r.mu.Unlock()
	r.all.Go(func() {
		store, err := redisstore.Open(redisstore.Config{URL: "redis://virtual:6379", Dialer: r.redis.Dialer(site),
			Before: site.Before, Jitter: r.w.Jitter, WaitReplicas: 1})
		if err != nil {
			panic(err)
		}
		defer store.Close()
		part, run := r.start(ctx, store, fmt.Sprint(r.name, ".", number))
		r.mu.Lock()
		r.life = &life[P]{part, ctx}
		r.mu.Unlock()
		run(ctx)
		<-ctx.Done()
	})
}

// now returns the current life, or nil if it is down.
func (r *replica[P]) now() *life[P] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life
}

// crash ends its life abruptly.
func (r *replica[P]) crash() {
	r.mu.Lock()
	site, end := r.site, r.end
	r.life = nil
	r.mu.Unlock()
	site.Kill()
	end()
}

// close ends it at the end of the run.
func (r *replica[P]) close() {
	r.mu.Lock()
	r.over, r.life = true, nil
	r.mu.Unlock()
	r.site.Kill()
	r.end()
	r.all.Wait()
}

// faults returns its possible faults.
func (r *replica[P]) faults() []sim.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life == nil {
		return nil
	}
	site := r.site
	return []sim.Event{
		sim.Fault(r.name+" loses a connection", func() { site.ResetOne(r.w.Draw(r.name)) }),
		sim.Fault(r.name+" loses its connections", site.Cut),
		sim.Fault(r.name+" is cut off", func() {
			site.Silence(true)
			r.w.After(time.Duration(r.w.Draw(r.name)%uint64(3*time.Second)), func() { site.Silence(false) })
		}),
		sim.Fault(r.name+" crashes", func() {
			r.crash()
			r.w.After(time.Duration(r.w.Draw(r.name)%uint64(2*time.Second)), r.boot)
		}),
	}
}
