package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

var (
	_ health.Membership = (*redisstore.HealthStore)(nil)
	_ health.Store      = (*redisstore.HealthStore)(nil)
)

func TestHealthRoll(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Health(), open().Health()
		digest := health.Digest{Probes: 3, Sum: 1<<63 + 7, Late: 1500 * time.Millisecond}
		heartbeat := func(r *redisstore.HealthStore, id string, dead time.Duration) health.Members {
			t.Helper()
			m, err := r.Heartbeat(t.Context(), health.Heartbeat{Replica: id, Digest: digest, Dead: dead})
			check.Must(t, err)
			slices.SortFunc(m.Members, func(a, b health.Member) int { return len(a.Replica) - len(b.Replica) })
			return m
		}
		one := heartbeat(a, "a", time.Hour)
		if len(one.Members) != 1 || one.Members[0].Replica != "a" || one.Members[0].Age != 0 ||
			one.Members[0].Digest != digest || one.Epoch == "" {
			t.Errorf("alone: %+v", one)
		}
		two := heartbeat(b, "bb", time.Hour)
		if len(two.Members) != 2 || two.Members[0].Replica != "a" || two.Members[0].Age < 0 || two.Epoch != one.Epoch ||
			two.Now < one.Now {
			t.Errorf("two: %+v", two)
		}
		events := watch(t, a)
		check.Must(t, b.Leave(t.Context(), "bb"))
		if n := check.Received(t, events, "the event"); n.Left != "bb" {
			t.Errorf("when one left: %+v", n)
		}
		if m := heartbeat(a, "a", time.Hour); len(m.Members) != 1 {
			t.Errorf("after one left: %+v", m)
		}
		if m := heartbeat(a, "a", -time.Hour); len(m.Members) != 0 {
			t.Errorf("when all beats are too old: %+v", m)
		}
	})
}

// watch returns the events after the start.
func watch(t *testing.T, b *redisstore.HealthStore) <-chan health.Event {
	t.Helper()
	events := make(chan health.Event, 100)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = b.Watch(ctx, func(n health.Event) { events <- n }) })
	t.Cleanup(func() {
		stop()
		check.Ended(t, &watching, "the watches to stop")
	})
	if n := check.Received(t, events, "the event"); !n.Subscribed {
		t.Errorf("at first: %+v", n)
	}
	return events
}

func TestHealthBoard(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Health(), open().Health()
		n := health.ShardOf("weather")
		page := func(whole bool) health.Shard {
			t.Helper()
			p, err := b.Shard(t.Context(), n, whole)
			check.Must(t, err)
			return p
		}
		if p := page(true); p.Version != 0 || len(p.Entries) != 0 || p.Now == 0 {
			t.Errorf("empty: %+v", p)
		}
		events := watch(t, b)
		key := health.Key{Capability: "weather", Addr: "10.0.0.7:50051", Role: health.Secondary}
		observation := health.Observation{
			State: health.Down, Refused: true, Dialect: uint8(call.Live), Episode: 1<<32 - 1,
			By: "a", Reason: "no answer in time\nor so", Since: 1, Written: 1,
		}
		publish := func(reports ...health.Report) health.Event {
			t.Helper()
			check.Must(t, a.Publish(t.Context(), reports))
			return check.Received(t, events, "the event")
		}
		published := publish(health.Report{Key: key, Observation: &observation, Age: time.Minute}, health.Report{
			Key: health.Key{Capability: "weather", Addr: "b:1"}, Observation: &observation,
		})
		if published.Shard != n || published.Version == 0 || published.Previous != 0 || len(published.Entries) != 2 ||
			published.Entries[0].Key != key {
			t.Fatalf("published: %+v", published)
		}
		got := *published.Entries[0].Observation
		if got.Written-got.Since != time.Minute.Milliseconds() || got.Reason != "no answer in time or so" {
			t.Errorf("published: %+v", got)
		}
		got.Since, got.Written, got.Reason = observation.Since, observation.Written, observation.Reason
		if got != observation {
			t.Errorf("posted %+v, published %+v", observation, got)
		}
		p := page(true)
		if p.Version != published.Version || len(p.Entries) != 2 {
			t.Errorf("read: %+v", p)
		}
		if p := page(false); p.Version != published.Version || len(p.Entries) != 0 {
			t.Errorf("its version: %+v", p)
		}
		next := publish(health.Report{Key: key})
		if next.Version <= published.Version || next.Previous != published.Version || len(next.Entries) != 1 ||
			next.Entries[0].Observation != nil {
			t.Errorf("published that one is gone: %+v", next)
		}
		if next.Version == next.Previous+1 { // a store that fails over to a copy must not give a version twice
			t.Errorf("the version lacks the time: %+v", next)
		}
		if p := page(true); p.Version != next.Version || len(p.Entries) != 1 || p.Entries[0].Addr != "b:1" {
			t.Errorf("one is gone: %+v", p)
		}
	})
}

// Malformed entries are skipped and counted; keys of the wrong type are replaced by the next write.
func TestHealthMalformed(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		b := s.Health()
		n := health.ShardOf("c")
		raw := func(f func(ctx context.Context, r redis.Cmdable) error) {
			t.Helper()
			check.Must(t, s.Probe().Do(t.Context(), f))
		}
		good := health.Report{
			Key: health.Key{Capability: "c", Addr: "a:1"}, Observation: &health.Observation{State: health.Up, By: "r"},
		}
		raw(func(ctx context.Context, r redis.Cmdable) error { return r.Set(ctx, b.ShardKey(n), "no hash", 0).Err() })
		for i, key := range b.MembershipKeys() {
			raw(func(ctx context.Context, r redis.Cmdable) error {
				if i == 2 {
					return r.LPush(ctx, key, "no string").Err()
				}
				return r.Set(ctx, key, "neither", 0).Err()
			})
		}
		if p, err := b.Shard(t.Context(), n, true); err != nil || p.Version != 0 || s.Stats().Malformed != 1 {
			t.Errorf("a string: %+v, %v, %d counted", p, err, s.Stats().Malformed)
		}
		if m, err := b.Heartbeat(t.Context(), health.Heartbeat{Replica: "r", Dead: time.Hour}); err != nil ||
			len(m.Members) != 1 {
			t.Errorf("a roll of other types: %+v, %v", m, err)
		}
		check.Must(t, b.Publish(t.Context(), []health.Report{good}))
		raw(func(ctx context.Context, r redis.Cmdable) error {
			return r.HSet(ctx, b.ShardKey(n), "c b:1 0", "gibberish", "what", "1 1 1 0 0 0 r ok", "v", "none",
				"c d:1 7", "1 1 1 0 0 0 r ok").Err()
		})
		raw(func(ctx context.Context, r redis.Cmdable) error {
			return r.HSet(ctx, b.MembershipKeys()[1], "r", "gibberish").Err()
		})
		before := s.Stats().Malformed
		if p, err := b.Shard(t.Context(), n, true); err != nil || len(p.Entries) != 1 || p.Entries[0].Addr != "a:1" ||
			s.Stats().Malformed != before+4 {
			t.Errorf("%+v, %v, %d counted", p, err, s.Stats().Malformed-before)
		}
		events := watch(t, b)
		for _, garbage := range []string{
			"", "left", "page 99 1 0", "page 1 x 0", "page 1 2 x", "page 1 2 2", "page 1 2",
			"page 1 2 1\nc a:1 0", "page 1 2 1\nc a:1 0\n1 2 3",
		} {
			raw(func(ctx context.Context, r redis.Cmdable) error {
				return r.Publish(ctx, b.HealthChannel(), garbage).Err()
			})
		}
		check.Must(t, b.Publish(t.Context(), []health.Report{good}))
		if published := check.Received(t, events, "the event"); published.Shard != n || published.Version == 0 ||
			len(published.Entries) != 1 {
			t.Errorf("after garbage: %+v", published)
		}
	})
}

// With whole probers and real backends the replicas agree, and see a backend fail.
func TestHealthOfThreeReplicas(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		sicken := make([]func(), 3)
		fleet := health.Fleet{Capability: "c", Config: health.Config{Interval: 50 * time.Millisecond,
			Timeout: patience}}
		for i := range sicken {
			var addr string
			addr, sicken[i] = standard(t)
			fleet.Backends = append(fleet.Backends, addr)
		}
		var news []chan *health.Snapshot
		for i := range 3 {
			published := make(chan *health.Snapshot, 1000)
			board := open().Health()
			p := health.New([]health.Fleet{fleet}, health.Options{
				Changed: func(s *health.Snapshot) { published <- s },
				Shared: &health.Shared{
					Membership: board, Store: board, ID: fmt.Sprintf("r%d", i), Heartbeat: 500 * time.Millisecond,
					Reconcile: time.Second, Stale: time.Hour,
				},
			})
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { p.Run(ctx) })
			t.Cleanup(func() {
				stop()
				check.Ended(t, &running, "the background work to end")
			})
			news = append(news, published)
		}
		await := func(want ...health.State) {
			t.Helper()
			for i, published := range news {
				for agrees := false; !agrees; {
					s := check.Received(t, published, fmt.Sprintf("replica %d to see %v", i, want))
					agrees = slices.EqualFunc(s.Backends, want, func(b health.Backend, st health.State) bool {
						return b.State == st
					})
				}
			}
		}
		await(health.Up, health.Up, health.Up)
		sicken[1]()
		await(health.Up, health.Down, health.Up)
	})
}

// standard starts a backend that answers grpc.health.v1 as healthy, until it is to fail.
func standard(t *testing.T) (addr string, sicken func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	s, how := grpc.NewServer(), grpchealth.NewServer()
	healthpb.RegisterHealthServer(s, how)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ln) })
	t.Cleanup(func() {
		s.Stop()
		check.Ended(t, &serving, "the server to stop")
	})
	return ln.Addr().String(), func() { how.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING) }
}
