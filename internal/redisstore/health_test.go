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
	"github.com/capgate/capgate/health/storetest"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestHealth(t *testing.T) {
	runContract(t, storetest.Suite(), func(s *redisstore.Store) storetest.Shared { return s.Health() })
}

// publish publishes reports, and returns the notices that wait.
func publish(t *testing.T, s health.Store, reports []health.Report) []health.Waiting {
	t.Helper()
	waiting, err := s.Publish(t.Context(), reports)
	check.Must(t, err)
	return waiting
}

// TestHealthVersionsHaveTheTime: a store that fails over to a copy does not give a version twice.
func TestHealthVersionsHaveTheTime(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		b := open().Health()
		events := storetest.Watch(t, b)
		report := health.Report{Key: health.Key{Capability: "c", Addr: "a:1"},
			Observation: &health.Observation{State: health.Up, By: "r", Reason: "one\nline"}}
		for round := range 2 {
			publish(t, b, []health.Report{report})
			n := check.Received(t, events, "the event")
			if n.Version == n.Previous+1 || (n.Previous == 0) != (round == 0) ||
				n.Entries[0].Observation.Reason != "one line" {
				t.Errorf("round %d: %+v", round, n)
			}
		}
	})
}

// TestHealthNoticesWait: notices wait while those before are not paid, and a later one has all changes. A replica of an
// earlier version, which knows of no waiting, may publish meanwhile.
func TestHealthNoticesWait(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		s := open()
		b, n := s.Health(), health.ShardOf("c")
		report := func(addr string) health.Report {
			return health.Report{Key: health.Key{Capability: "c", Addr: addr},
				Observation: &health.Observation{State: health.Up, By: "r"}}
		}
		raw := func(f func(ctx context.Context, r redis.Cmdable) error) {
			t.Helper()
			check.Must(t, s.Probe().Do(t.Context(), f))
		}
		read := func(whole bool) health.Shard {
			t.Helper()
			p, err := b.Shard(t.Context(), n, whole)
			check.Must(t, err)
			return p
		}
		events := storetest.Watch(t, b)
		if waiting := publish(t, b, []health.Report{report("a:1"), report("b:1")}); len(waiting) > 0 {
			t.Errorf("at first: %+v", waiting)
		}
		first := check.Received(t, events, "the event").Version
		raw(func(ctx context.Context, r redis.Cmdable) error {
			return r.Set(ctx, b.PaidKey(n), time.Now().Add(20*time.Second).UnixMicro(), 0).Err()
		})
		alone := publish(t, open().Health(), []health.Report{report("d:1")})
		if len(alone) != 1 || alone[0].Shard != n || alone[0].Version != first || alone[0].Wait < 10*time.Second {
			t.Fatalf("not paid: %+v", alone)
		}
		more := publish(t, b, []health.Report{report("a:1"), {Key: report("b:1").Key}})
		if len(more) != 1 || more[0].Version != first || more[0].Wait < 10*time.Second {
			t.Fatalf("not paid, with one that waits: %+v", more)
		}
		if p := read(true); p.Version != first || len(p.Entries) != 2 || p.Wait < 10*time.Second {
			t.Errorf("while notices wait: %+v", p)
		}
		raw(func(ctx context.Context, r redis.Cmdable) error {
			check.Must(t, r.HSet(ctx, b.ShardKey(n), "v", first+1).Err())
			return r.Publish(ctx, b.HealthChannel(), fmt.Sprintf("page %d %d %d", n, first+1, first)).Err()
		})
		if e := check.Received(t, events, "the event"); e.Version != first+1 {
			t.Errorf("of the earlier version: %+v", e)
		}
		raw(func(ctx context.Context, r redis.Cmdable) error { return r.Del(ctx, b.PaidKey(n)).Err() })
		p := read(false)
		e := check.Received(t, events, "the event")
		if p.Wait != 0 || p.Version != e.Version || e.Previous != first+1 || len(e.Entries) != 3 {
			t.Errorf("paid: %+v, %+v", p, e)
		}
		for _, entry := range e.Entries {
			if (entry.Observation == nil) != (entry.Addr == "b:1") {
				t.Errorf("paid: %+v", entry)
			}
		}
	})
}

// TestHealthNoticesOfManyReplicas: the pace of notices depends on the number of live replicas also where a node of a
// Cluster counts few receivers. A replica that leaves sends what waits.
func TestHealthNoticesOfManyReplicas(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		b := open().Health()
		events := storetest.Watch(t, b)
		for i, id := range []string{"a", "b"} {
			_, err := b.Heartbeat(t.Context(), health.Heartbeat{Replica: id, Dead: time.Minute})
			check.Must(t, err)
			if live := b.Live(); live != int64(i+1) {
				t.Errorf("%d live replicas", live)
			}
		}
		b.SetLive(50_000)
		report := health.Report{Key: health.Key{Capability: "c", Addr: "a:1"},
			Observation: &health.Observation{State: health.Up, By: "r"}}
		if waiting := publish(t, b, []health.Report{report}); len(waiting) > 0 {
			t.Errorf("at first: %+v", waiting)
		}
		first := check.Received(t, events, "the event")
		report.Addr = "b:1"
		if waiting := publish(t, b, []health.Report{report}); len(waiting) != 1 {
			t.Errorf("then: %+v", waiting)
		}
		check.Must(t, b.Leave(t.Context(), "a"))
		left, e := check.Received(t, events, "the event"), check.Received(t, events, "the event")
		if left.Left == "" { // another node of a Cluster sends it
			left, e = e, left
		}
		if left.Left != "a" || e.Previous != first.Version || e.Entries[0].Key != report.Key {
			t.Errorf("when a replica leaves: %+v, %+v", left, e)
		}
		if waiting := publish(t, b, []health.Report{report}); len(waiting) != 1 {
			t.Errorf("after it: %+v", waiting)
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
		publish(t, b, []health.Report{good})
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
		events := storetest.Watch(t, b)
		for _, garbage := range []string{
			"", "left", "page 99 1 0", "page 1 x 0", "page 1 2 x", "page 1 2 2", "page 1 2",
			"page 1 2 1\nc a:1 0", "page 1 2 1\nc a:1 0\n1 2 3",
		} {
			raw(func(ctx context.Context, r redis.Cmdable) error {
				return r.Publish(ctx, b.HealthChannel(), garbage).Err()
			})
		}
		publish(t, b, []health.Report{good})
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
