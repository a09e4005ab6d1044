package router_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/router"
)

// ok is the outcome of a successful call.
var ok = router.Outcome{Class: router.Succeeded, Latency: 3 * time.Millisecond}

// tableOf returns a table of n capabilities with ten backends each, and their ids.
func tableOf(tb testing.TB, n int) (*router.Table, []string) {
	tb.Helper()
	cfg := router.Config{Domains: []string{"caps.example.com"}}
	var ids []string
	for i := range n {
		f := router.FleetConfig{Capability: fmt.Sprintf("capability-%d", i)}
		for j := range 10 {
			f.Backends = append(f.Backends, router.BackendConfig{Addr: fmt.Sprintf("10.%d.%d.%d:50051", i/256, i%256,
				j)})
		}
		cfg.Fleets = append(cfg.Fleets, f)
		ids = append(ids, f.Capability)
	}
	return newTable(tb, cfg, nil), ids
}

// The benchmark resolves a key, picks a backend and ends the call. Each call has another capability, in an order that
// no CPU cache predicts; only its name is cached, like that of a request just read.
func BenchmarkResolveAndRoute(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("capabilities=%d", n), func(b *testing.B) {
			table, ids := tableOf(b, n)
			calls := make([]string, 1<<16)
			var read strings.Builder
			for i := range calls {
				calls[i] = ids[rand.IntN(n)]
				read.WriteString(calls[i])
			}
			rest := read.String()
			for i := range calls {
				calls[i], rest = rest[:len(calls[i])], rest[len(calls[i]):]
			}
			runtime.GC() // what building left is not to be cleared away while calls are measured
			b.ReportAllocs()
			end := ok
			end.At = time.Now() // as set by the relay
			i := 0
			for b.Loop() {
				i++
				id := calls[i%len(calls)]
				f, refusal := table.Resolve(router.Key{
					Metadata: id, Message: id, Authority: "localhost:8080", Service: "selu.capability.v1.Capability",
				}, all{})
				if refusal != nil {
					b.Fatal(refusal)
				}
				_, claim, refusal := f.Route(nil)
				if refusal != nil {
					b.Fatal(refusal)
				}
				claim.Done(end)
			}
		})
	}
}

func TestResolveAndRouteAllocateNothing(t *testing.T) {
	table, ids := tableOf(t, 100)
	keys := []router.Key{
		{Metadata: ids[1], Message: ids[1], Authority: "Capability-1.caps.example.com:8080"},
		{Authority: "Capability-1.caps.example.com:8080"},
		{Message: ids[1]},
	}
	allocs := testing.AllocsPerRun(100, func() {
		for _, k := range keys {
			f, _ := table.Resolve(k, all{})
			first, claim, _ := f.Route(nil)
			claim.Done(ok)
			_, claim, _ = f.Route(first)
			claim.Done(ok)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
