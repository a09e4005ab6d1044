package sim_test

import (
	"context"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// callLimit is the longest time for one operation: each command and each wait for a replica of Redis is bounded.
const callLimit = 4 * time.Second

// cluster is several replicas with one Redis.
type cluster[P any] struct {
	*sim.Simulation
	ctx      context.Context
	stop     context.CancelFunc
	redis    *sim.Redis
	replicas []*replica[P]
}

// newCluster starts replicas. start creates a replica on a store; name identifies its current life.
func newCluster[P any](w *sim.Simulation, n int,
	start func(ctx context.Context, s *redisstore.Store, name string) (part P, run func(context.Context)),
) *cluster[P] {
	ctx, stop := context.WithCancel(context.Background())
	c := &cluster[P]{Simulation: w, ctx: ctx, stop: stop, redis: w.NewRedis()}
	for i := range n {
		c.replicas = append(c.replicas, newReplica(w, c.redis, fmt.Sprintf("replica%d", i), start))
	}
	return c
}

// copies sends commands to the copy of Redis, up to a number at a time.
func (c *cluster[P]) copies(most uint64) {
	c.Always("redis: its replica gets commands", func() bool { return c.redis.Lag() == 0 },
		func() { c.redis.Replicate(1 + c.Draw("replicate")%most) })
}

// end ends the run and waits for all replicas.
func (c *cluster[P]) end() {
	c.stop()
	c.Stop()
	for _, r := range c.replicas {
		r.close()
	}
	c.redis.Close()
}

// at calls f for an actor with a replica that is up, and checks that it ends in time. If the replica crashes meanwhile,
// the result of f is lost and at returns false.
func (c *cluster[P]) at(a *sim.Actor, r *replica[P], what string, limit time.Duration,
	f func(ctx context.Context, part P),
) bool {
	l := r.now()
	if l == nil {
		return false
	}
	ctx, cancel := context.WithCancel(a.As(l.ctx))
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()
	began := c.Now()
	f(ctx, l.part)
	if took := c.Now() - began; took > limit {
		c.Fail("%s at %s took %v", what, r.name, took)
	}
	return r.now() == l // a crash decides this before any connection breaks
}

// turn waits for an actor's turn and for a replica that is up.
func (c *cluster[P]) turn(a *sim.Actor, what string) bool {
	return a.TurnWhen(c.ctx, what, func() bool { return len(c.up()) > 0 })
}

// up returns the replicas that are up.
func (c *cluster[P]) up() (all []*replica[P]) {
	for _, r := range c.replicas {
		if r.now() != nil {
			all = append(all, r)
		}
	}
	return all
}

// some returns a replica, preferably one that is up.
func (c *cluster[P]) some(a *sim.Actor) *replica[P] {
	all := c.up()
	if len(all) == 0 {
		all = c.replicas
	}
	return all[a.IntN(len(all))]
}

// faults returns the possible faults of replicas and Redis. failedOver is called after a failover, which has lost the
// commands since a time, and emptied after Redis has lost its data.
func (c *cluster[P]) faults(failedOver func(since time.Time, forgotten int), emptied func()) (all []sim.Event) {
	for _, r := range c.replicas {
		all = append(all, r.faults()...)
	}
	return append(all, c.failover(failedOver),
		sim.Fault("Redis is full", func() {
			c.redis.Fill(true)
			c.After(time.Duration(c.Draw("full")%uint64(2*time.Second)), func() { c.redis.Fill(false) })
		}),
		sim.Fault("Redis restarts without its data", func() {
			c.redis.Restart()
			emptied()
		}))
}

// failover returns a failover of Redis to its copy.
func (c *cluster[P]) failover(failedOver func(since time.Time, forgotten int)) sim.Event {
	lag := c.redis.Lag()
	return sim.Fault(fmt.Sprintf("Redis fails over, and forgets %d commands", lag), func() {
		failedOver(c.redis.Failover(), lag)
	})
}
