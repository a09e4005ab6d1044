package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// BenchmarkReplicas measures the CPU time of a redis-server's thread for what each of many replicas sends again and
// again, as redis-µs/op. docs/run/sizing.md has the figures.
func BenchmarkReplicas(b *testing.B) {
	for _, replicas := range []int{1, 1000} {
		b.Run(fmt.Sprintf("recent, at rest, of %d", replicas), func(b *testing.B) { benchRecent(b, replicas, 0) })
		b.Run(fmt.Sprintf("drains, none, of %d", replicas), func(b *testing.B) { benchDrains(b, replicas, false) })
		b.Run(fmt.Sprintf("drains, one, of %d", replicas), func(b *testing.B) { benchDrains(b, replicas, true) })
	}
	for _, calls := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("recent, %d calls", calls), func(b *testing.B) { benchRecent(b, 1, calls) })
		b.Run(fmt.Sprintf("past, %d calls", calls), func(b *testing.B) { benchPast(b, calls) })
	}
}

func callsOf(batch, n int) []recent.Call {
	calls := make([]recent.Call, n)
	for i := range calls {
		calls[i] = recent.Call{ID: fmt.Sprintf("gateway-1-%d-%d", batch, i), Replica: "gateway-1", Ended: time.Now(),
			Summary: telemetry.Summary{Tenant: fmt.Sprintf("tenant-%d", i%10), Capability: "weather", Code: "OK",
				Tool: "get_current_weather", User: "ann", Agent: "planner", Backend: "10.0.0.7:50051",
				RequestID: "0f8fad5b-d9cb-469f-a165-70867728950e", Outcome: "success"}}
	}
	return calls
}

func benchRecent(b *testing.B, replicas, calls int) {
	storeOnServer(b, func(open func() *redisstore.Store) func(int) error {
		store := open().Recent()
		publish := func(i int) error {
			batch := &recent.Batch{Calls: callsOf(i, calls)}
			if calls == 0 {
				batch.Replica = &recent.Replica{ID: fmt.Sprintf("gateway-%d", i%replicas), Version: "v1.0.0",
					Ready: true, Started: time.Now(), Redis: "ok", Seen: time.Now()}
			} else {
				batch.Minutes = map[int64]map[string]recent.Counts{1: {"tenant-1": {Calls: int64(calls)}}}
			}
			return store.Publish(b.Context(), batch, 500)
		}
		for i := range max(replicas, 10) {
			check.Must(b, publish(-i-1+replicas*1000))
		}
		return publish
	}, nothing)
}

func benchPast(b *testing.B, calls int) {
	storeOnServer(b, func(open func() *redisstore.Store) func(int) error {
		store := open().Recent()
		return func(i int) error {
			return store.Keep(b.Context(), callsOf(i, calls), recent.Bounds{Calls: 2000, Days: 7})
		}
	}, nothing)
}

func benchDrains(b *testing.B, replicas int, drained bool) {
	storeOnServer(b, func(open func() *redisstore.Store) func(int) error {
		store := open().Drains()
		backend := drains.Key{Capability: "weather", Addr: "10.0.0.7:50051"}
		exchange := func(i int) error {
			r := drains.Report{Replica: fmt.Sprintf("gateway-%d", i%replicas)}
			if drained {
				r.Known, r.Calls = []drains.Key{backend}, map[drains.Key]int64{backend: 3}
			}
			_, err := store.Exchange(b.Context(), r)
			return err
		}
		if drained {
			_, err := store.Exchange(b.Context(), drains.Report{Replica: "gateway-0", Set: []drains.Key{backend}})
			check.Must(b, err)
		}
		for i := range replicas {
			check.Must(b, exchange(i))
		}
		return exchange
	}, nothing)
}
