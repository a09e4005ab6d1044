package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// turnTaker creates one replica's Manager, which runs until the test ends.
func turnTaker(t *testing.T, s *redisstore.Store, o turns.Options) *turns.Manager {
	t.Helper()
	k := turns.New(s.EngineTurns(), o)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	t.Cleanup(func() {
		k.Close()
		stop()
		check.Ended(t, &running, "the background work to end")
	})
	return k
}

// crowd is a number of callers that want leases of one engine.
type crowd struct {
	t       *testing.T
	look    *redisstore.EngineTurns // bypasses all services
	all     sync.WaitGroup
	running atomic.Int64

	mu  sync.Mutex
	had map[string][]int // by tenant
}

// come starts a caller, and returns when it is the nth that waits.
func (c *crowd) come(k *turns.Manager, tenant string, n int) {
	c.t.Helper()
	c.take(k, tenant, n)
	c.waits(n)
}

func (c *crowd) take(k *turns.Manager, tenant string, n int) {
	c.all.Go(func() {
		turn, err := k.Take(context.Background(), "engine-1", tenant, 100)
		if err != nil {
			c.t.Errorf("%s %d: %v", tenant, n, err)
			return
		}
		if c.running.Add(1) > 1 {
			c.t.Errorf("%s %d is not alone", tenant, n)
		}
		c.mu.Lock()
		c.had[tenant] = append(c.had[tenant], n)
		c.mu.Unlock()
		c.running.Add(-1)
		turn.Done()
	})
}

// waits waits until the given number of callers wait.
func (c *crowd) waits(n int) {
	c.t.Helper()
	check.Holds(c.t, fmt.Sprint(n, " to wait"), func() bool {
		var line int64
		err := c.look.Do(c.t.Context(), func(ctx context.Context, r redis.Cmdable) (err error) {
			line, err = r.ZCard(ctx, c.look.Keys("engine-1")[2]).Result()
			return err
		})
		return err == nil && line == int64(n)
	})

	// Redis may report the number before it has responded to the last of them. It responds to the next command
	// after that.
	check.Must(c.t, c.look.Do(c.t.Context(),
		func(ctx context.Context, r redis.Cmdable) error { return r.Ping(ctx).Err() }))
}

// ended waits until all n callers have had their lease, in the order of arrival.
func (c *crowd) ended(n int) {
	c.t.Helper()
	check.Ended(c.t, &c.all, "the callers to have had their turns")
	sum := 0
	for tenant, had := range c.had {
		sum += len(had)
		for i := range had[1:] {
			if had[i] > had[i+1] {
				c.t.Errorf("%s had its turns in this order: %v", tenant, had)
				break
			}
		}
	}
	if sum != n {
		c.t.Errorf("%d had a turn, not %d: %v", sum, n, c.had)
	}
}

// taken is a lease that the test ends.
func (c *crowd) taken(k *turns.Manager) *turns.Turn {
	c.t.Helper()
	turn, err := k.Take(check.Context(c.t), "engine-1", "acme", 100)
	check.Must(c.t, err)
	c.running.Add(1)
	return turn
}

func (c *crowd) done(turn *turns.Turn) {
	c.running.Add(-1)
	turn.Done()
}

// TestFiftyTakeTurns: fifty callers at three replicas get the lease one at a time, in the order of arrival.
func TestFiftyTakeTurns(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		c := &crowd{t: t, look: open().EngineTurns(), had: map[string][]int{}}
		var all []*turns.Manager
		for range 3 {
			all = append(all, turnTaker(t, open(), turns.Options{Lease: time.Hour}))
		}
		first := c.taken(all[0])
		for n := 1; n <= 50; n++ {
			c.come(all[n%3], []string{"acme", "globex"}[n/3%2], n)
		}
		c.done(first)
		c.ended(50)
		c.had = map[string][]int{}
		for n := range 50 {
			c.take(all[n%3], fmt.Sprint("at once ", n), n)
		}
		c.ended(50)
	})
}

// TestAReplicaWithTheTurnDies: the replica that holds the lease dies with some of its callers. The others get
// their leases.
func TestAReplicaWithTheTurnDies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := redistest.NewProxy(t, "tcp", server.Addr)
	c := &crowd{t: t, look: open(t, redisstore.Config{URL: server.URL()}).EngineTurns(), had: map[string][]int{}}
	var all []*turns.Manager
	for range 2 {
		all = append(all, turnTaker(t, open(t, redisstore.Config{URL: server.URL()}), turns.Options{Lease: time.Hour}))
	}
	dies := turnTaker(t, open(t, impatient("redis://"+way.Addr)), turns.Options{Lease: time.Second,
		WaitingTimeout: time.Nanosecond})
	turn, err := dies.Take(check.Context(t), "engine-1", "acme", 100)
	check.Must(t, err)
	defer turn.Done()
	lease, err := dies.Acquire(t.Context(), "engine-1", "agent", false)
	check.Must(t, err)
	defer lease.Release()
	for range 5 {
		c.all.Go(func() { // some get it, if the others' leases end before
			if turn, err := dies.Take(context.Background(), "engine-1", "acme", 100); err == nil {
				defer turn.Done()
				<-t.Context().Done()
			}
		})
	}
	c.waits(5)
	way.BlackHole()
	for n := range 20 {
		c.take(all[n%2], fmt.Sprint("tenant ", n), n)
	}
	check.Holds(t, "the lease to end", func() bool {
		l, err := all[0].Acquire(t.Context(), "engine-1", "another", false)
		if err == nil {
			l.Release()
		}
		return err == nil
	})

	c.ended(20)
}

// TestTurnsAndRedisRestarts: after Redis restarts without data, the holder keeps its lease, and the waiting
// callers get theirs afterwards, in order.
func TestTurnsAndRedisRestarts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := &crowd{t: t, look: open(t, redisstore.Config{URL: server.URL()}).EngineTurns(), had: map[string][]int{}}
	var all []*turns.Manager
	for range 3 {
		all = append(all, turnTaker(t, open(t, redisstore.Config{URL: server.URL()}),
			turns.Options{Lease: time.Minute}))
	}
	first := c.taken(all[0])
	for n := 1; n <= 20; n++ {
		c.come(all[n%3], []string{"acme", "globex"}[n%2], n)
	}
	server.Kill()
	check.Holds(t, "others to be sent unavailable", func() bool {
		_, err := all[1].Take(check.Context(t), "engine-1", "acme", 100)
		return errors.Is(err, turns.ErrUnavailable)
	})

	server.Restart()
	c.waits(20)
	for n := 21; n <= 30; n++ {
		c.come(all[n%3], []string{"acme", "globex"}[n%2], n)
	}
	c.done(first)
	c.ended(30)
}

// TestALeaseOutlivesRedis: only a takeover ends it, and its holder is notified at once.
func TestALeaseOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := redistest.NewProxy(t, "tcp", server.Addr)
	a := turnTaker(t, open(t, impatient("redis://"+way.Addr)), turns.Options{Lease: time.Minute})
	b := turnTaker(t, open(t, redisstore.Config{URL: server.URL()}), turns.Options{Lease: time.Minute})
	seize := func(k *turns.Manager, takeover bool) (*turns.Lease, error) {
		return k.Acquire(t.Context(), "engine-1", "agent", takeover)
	}
	var lease *turns.Lease
	var err error
	check.Holds(t, "the first to get it", func() bool {
		lease, err = seize(a, false)
		return err == nil
	})

	if _, err := seize(b, false); !errors.Is(err, turns.ErrLeaseTaken) {
		t.Errorf("another gets %v", err)
	}
	server.Kill()
	check.Holds(t, "others to be sent unavailable", func() bool {
		_, err := seize(b, true)
		return errors.Is(err, turns.ErrUnavailable)
	})

	server.Restart()
	check.Holds(t, "the lease to be written again", func() bool { return server.Do("DBSIZE") != int64(0) })
	var theirs *turns.Lease
	check.Holds(t, "another to be refused, or to take it over", func() bool {
		if _, err := seize(b, false); !errors.Is(err, turns.ErrLeaseTaken) {
			return false
		}
		theirs, err = seize(b, true)
		return err == nil
	})

	check.Received(t, lease.Lost(), "the first to lose it")
	lease.Release()

	way.BlackHole()
	server.Restart()
	check.Holds(t, "the second to be known again", func() bool { return server.Do("DBSIZE") != int64(0) })
	theirs.Release()
	check.Holds(t, "the second to give it back", func() bool { return server.Do("DBSIZE") == int64(0) })
	way.Heal()
	check.Holds(t, "the first to get it again", func() bool {
		lease, err = seize(a, false)
		return err == nil
	})

	way.BlackHole()
	server.Restart()
	check.Holds(t, "the second to take it from Redis that has lost it", func() bool {
		theirs, err = seize(b, false)
		return err == nil
	})

	way.Heal()
	check.Received(t, lease.Lost(), "the first to lose it again")
	lease.Release()
	theirs.Release()
}
