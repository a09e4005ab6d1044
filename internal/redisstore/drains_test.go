package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/drains/storetest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// replica is the part of a gateway's fleets that drains concern.
type replica struct {
	*drains.Manager

	mu    sync.Mutex
	force map[drains.Key]bool
	calls map[drains.Key]int64
	news  chan struct{} // closed and replaced whenever force is set
}

func (r *replica) SetDrains(all []drains.Drain) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.force = map[drains.Key]bool{}
	for _, d := range all {
		r.force[d.Key] = true
	}
	close(r.news)
	r.news = make(chan struct{})
}

func (r *replica) Calls(k drains.Key) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.calls[k]
	return n, ok
}

func (r *replica) has(k drains.Key, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[k] = n
}

// wait waits until exactly these drains are in effect.
func (r *replica) wait(t *testing.T, want ...drains.Key) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprint("the drains ", want), func() (bool, map[drains.Key]bool, <-chan struct{}) {
		r.mu.Lock()
		defer r.mu.Unlock()
		same := len(r.force) == len(want)
		for _, k := range want {
			same = same && r.force[k]
		}
		return same, r.force, r.news
	})
}

// join runs a replica until the test ends, or stop is called.
func join(t *testing.T, name string, store *redisstore.Store) (r *replica, stop func()) {
	t.Helper()
	r = &replica{calls: map[drains.Key]int64{}, news: make(chan struct{})}
	r.Manager = drains.New(name, store.Drains(), r, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); check.Ended(t, &running, "the background work to end") })
	t.Cleanup(stop)
	return r, stop
}

// left waits until the remaining calls of a backend meet a condition.
func (r *replica) left(t *testing.T, k drains.Key, want func(drains.Remaining) bool) {
	t.Helper()
	check.Until(t, "the remaining calls", func() (bool, string) {
		got := r.Remaining(k)
		return want(got), fmt.Sprintf("%+v", got)
	})
}

func TestDrains(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) drains.Store { return s.Drains() })
}

// TestDrainsOfTwoReplicas: each applies the drains of the other, and counts its calls.
func TestDrainsOfTwoReplicas(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		ctx := t.Context()
		const ann = "Ann 100%, issuer ü\n"
		one, two := drains.Key{Capability: "weather", Addr: "10.0.0.1:50051"}, drains.Key{Capability: "news",
			Addr: "[::1]:2"}
		a, _ := join(t, "a", open())
		b, leave := join(t, "b", open())
		a.has(one, 2)
		b.has(one, 3)
		b.has(two, 0)
		if shared, err := a.Set(ctx, []drains.Key{one, two}, true, ann); err != nil || !shared {
			t.Fatal(shared, err)
		}
		a.wait(t, one, two)
		b.wait(t, one, two)
		a.left(t, one, func(l drains.Remaining) bool {
			return l.Drained && l.By == ann && l.Shared && l.Calls == 5 && l.Replicas == 2 && l.Unacknowledged == 0
		})
		// of another replica than a
		b.left(t, two, func(l drains.Remaining) bool { return l.By == ann && l.Replicas == 2 && l.Unacknowledged == 0 })
		b.has(one, 0)
		a.has(one, 0)
		a.left(t, one, func(l drains.Remaining) bool { return l.Calls == 0 })
		if shared, err := b.Set(ctx, []drains.Key{two}, false, "bob"); err != nil || !shared {
			t.Fatal(shared, err)
		}
		a.wait(t, one)
		leave()
		a.left(t, one, func(l drains.Remaining) bool { return l.Replicas == 1 })
		late, _ := join(t, "late", open())
		late.wait(t, one)
		late.left(t, one, func(l drains.Remaining) bool { return l.By == ann })
	})
}

// The replicas write their drains again to a Redis that has restarted empty.
func TestDrainsAreGivenBack(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		key := drains.Key{Capability: "weather", Addr: "10.0.0.1:50051"}
		a, _ := join(t, "a", store)
		a.has(key, 0)
		if _, err := a.Set(t.Context(), []drains.Key{key}, true, "ann"); err != nil {
			t.Fatal(err)
		}
		p := store.Probe()
		err := p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			return r.Del(ctx, p.KeyOf("drains", "backends"), p.KeyOf("drains", "calls"), p.KeyOf("drains", "state"),
				p.KeyOf("drains", "ended"), p.KeyOf("drains", "by")).Err()
		})
		check.Must(t, err)
		b, _ := join(t, "b", open())
		b.wait(t, key)
		a.wait(t, key)
		b.left(t, key, func(l drains.Remaining) bool { return l.By == "ann" })
	})
}

// TestDrainsEndWithTheirBackends: a drain ends an hour after its backend was last in the fleets of any replica,
// and not before.
func TestDrainsEndWithTheirBackends(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		board, p := store.Drains(), store.Probe()
		key := drains.Key{Capability: "weather", Addr: "10.0.0.1:50051"}
		exchange := func(r drains.Report) int {
			t.Helper()
			r.Replica = "a"
			v, err := board.Exchange(t.Context(), r)
			check.Must(t, err)
			return len(v.Drains)
		}
		seen := func(ago time.Duration) {
			t.Helper()
			check.Must(t, p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
				return r.HSet(ctx, p.KeyOf("drains", "backends"), "weather 10.0.0.1:50051",
					fmt.Sprint("1 ", time.Now().Add(-ago).UnixMilli())).Err()
			}))
		}
		exchange(drains.Report{Set: []drains.Key{key}})
		seen(30 * time.Minute)
		if n := exchange(drains.Report{}); n != 1 {
			t.Error("the drain has ended after half an hour")
		}
		seen(2 * time.Hour)
		if n := exchange(drains.Report{Known: []drains.Key{key}}); n != 1 || exchange(drains.Report{}) != 1 {
			t.Error("the drain of a backend that a replica has has ended")
		}
		seen(2 * time.Hour)
		if n := exchange(drains.Report{}); n != 0 {
			t.Error("the drain of a backend that no replica has goes on")
		}
	})
}

// TestDeadReplicasDoNotCount: a drain does not wait for the calls of a replica that has stopped reporting.
func TestDeadReplicasDoNotCount(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		store := open()
		p := store.Probe()
		key := drains.Key{Capability: "weather", Addr: "10.0.0.1:50051"}
		check.Must(t, p.Do(t.Context(), func(ctx context.Context, r redis.Cmdable) error {
			said := func(ago time.Duration) string {
				return fmt.Sprintf("%d\n5 weather 10.0.0.1:50051\n", time.Now().Add(-ago).UnixMilli())
			}
			return r.HSet(ctx, p.KeyOf("drains", "calls"), "alive", said(0), "dead", said(time.Minute)).Err()
		}))
		v, err := store.Drains().Exchange(t.Context(), drains.Report{Replica: "a", Set: []drains.Key{key}})
		check.Must(t, err)
		if _, dead := v.Calls["dead"]; dead || v.Calls["alive"][key] != 5 {
			t.Errorf("the calls are %v", v.Calls)
		}
	})
}
