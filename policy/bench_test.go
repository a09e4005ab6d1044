package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
)

// BenchmarkDecide measures cached decisions with a full cache: for the same hundred callers, for a skewed distribution,
// and for random ones. The strings of a call are in the CPU cache, as in the gateway, so that the benchmark measures
// the memory of the decision cache alone.
func BenchmarkDecide(b *testing.B) {
	const entries = 100_000
	d, err := policy.New(policy.Options{
		Store: &memory{}, Source: said{call.Allow, policy.Fleet, policy.Accepted}, TTL: time.Hour, Entries: entries,
	})
	check.Must(b, err)
	callOf := func(i int) call.Call {
		return call.Call{
			Tenant: fmt.Sprint("tenant-", i%100), User: fmt.Sprintf("user-%06d", i), Capability: "weather",
			Tool: "get_current_weather",
		}
	}
	for i := range entries {
		d.Synced()
		c := callOf(i)
		if _, refusal := d.Fetch(b.Context(), &c); refusal != nil {
			b.Fatal(refusal)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, entries-1)
	for _, order := range []struct {
		name string
		next func() int
	}{
		{"hot", func() int { return entries - 1 - random.IntN(100) }},
		{"zipf", func() int { return entries - 1 - int(zipf.Uint64()) }},
		{"uniform", func() int { return random.IntN(entries) }},
	} {
		b.Run(order.name, func(b *testing.B) {
			var batch [64]call.Call
			var took time.Duration
			unknown, n := 0, 0
			for ; n < b.N; n += len(batch) {
				for i := range batch {
					batch[i] = callOf(order.next())
				}
				d.Synced()
				began := time.Now()
				for i := range batch {
					if _, ok := d.Decide(&batch[i]); !ok {
						unknown++
					}
				}
				took += time.Since(began)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/decision")
			b.ReportMetric(100*float64(unknown)/float64(n), "%unknown")
		})
	}
	c := callOf(entries - 7)
	b.Run("change", func(b *testing.B) { // of another caller's rule, and the next decision
		other := policy.Name{User: "nobody", Capability: "weather", Tool: "get_current_weather"}
		for b.Loop() {
			d.Invalidate(policy.Change{Tenant: c.Tenant, Name: other})
			if _, ok := d.Decide(&c); !ok {
				b.Fatal("a change of another's rule is taken for ours")
			}
		}
	})
	b.Run("allocations", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.Decide(&c)
		}
	})
	b.Run("at a known time", func(b *testing.B) { // as calls are decided
		b.ReportAllocs()
		now := time.Now()
		for b.Loop() {
			d.DecideAt(&c, now)
		}
	})
}
