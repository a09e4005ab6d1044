package ratelimit_test

import (
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
)

// warm returns a Limiter in which a tenant has all leases that a benchmark takes.
func warm(b *testing.B, l tenant.Limits) (*ratelimit.Limiter, *tenant.Settings) {
	b.Helper()
	of := ratelimit.New(ratelimit.Config{Store: plenty{}})
	b.Cleanup(run(of))
	return of, &tenant.Settings{ID: "acme", Limits: l}
}

func BenchmarkTake(b *testing.B) {
	whole := tenant.Bounds{CallsPerSecond: tenant.MaxCalls, Concurrent: 1_000_000, PerDay: tenant.MaxCalls}
	for name, l := range map[string]tenant.Limits{
		"unlimited":   {},
		"tenant":      {Bounds: whole},
		"tenant+user": {Bounds: whole, Each: []tenant.Limit{{Per: "user", Bounds: whole}}},
		"tenant+others": {Bounds: whole, Each: []tenant.Limit{{Capability: "weather", Tool: "forecast",
			Bounds: whole}}},
	} {
		b.Run(name, func(b *testing.B) {
			of, s := warm(b, l)
			var shards atomic.Uint32
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				shard := shards.Add(1)
				c := call.Call{Tenant: "acme", Capability: "weather", Tool: "now", User: "ann"}
				var p ratelimit.Permit
				for pb.Next() {
					for {
						refusal, ok := of.Take(s, &c, shard, &p)
						if refusal != nil {
							b.Error(refusal)
							return
						}
						if ok {
							break
						}
						waited := make(chan struct{})
						of.Wait(&p, func() { close(waited) })
						<-waited
					}
					of.Release(shard, &p)
					p = ratelimit.Permit{}
				}
			})
		})
	}
}
