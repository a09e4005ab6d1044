package history_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestRoutesAreCountedApart: each call counts in its own series, whatever other calls have names that share a place
// with its own.
func TestRoutesAreCountedApart(t *testing.T) {
	t.Parallel()
	const tools, tenants = 3, 40
	r := newRig(t, 4*tenants)
	want := map[history.Series]int64{}
	for range 2 { // the second publication begins without the routes of the first
		for i := range 4 * tools * tenants {
			tool, other := fmt.Sprint("tool", i%tools), fmt.Sprint(i/tools%tenants)
			rec := r.record("weather", tool)
			rec.Call.Tenant, rec.TenantUID, rec.Backend = other, "", "10.0.0."+other+":1"
			if i/(tools*tenants)%2 == 1 {
				rec.TenantUID, rec.Backend = "u"+other, ""
			} else {
				want[history.Series{Kind: history.Backend, Group: "weather", Name: rec.Backend}]++
			}
			want[history.TenantSeries(rec.Call.Tenant, rec.TenantUID)]++
			want[history.Series{Kind: history.Tool, Group: "weather", Name: tool}]++
			r.Record(rec)
			r.Record(rec)
		}
		check.Must(t, r.Publish(t.Context()))
	}
	for of, n := range want {
		if sum, _ := r.read(t, of, "24h"); sum.Calls() != 2*n {
			t.Errorf("%+v: %d calls, want %d", of, sum.Calls(), 2*n)
		}
	}
}

// TestACalledBackendIsNotDisplaced: a backend that is called again keeps its place, whether its route was known or not.
func TestACalledBackendIsNotDisplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	for _, minute := range []string{"ab", "a", "bc"} {
		for _, name := range minute {
			rec := r.record("weather", "get")
			rec.Backend = string(name)
			r.Record(rec)
		}
		check.Must(t, r.Publish(t.Context()))
		r.now = r.now.Add(time.Minute)
	}
	for name, want := range map[string]int64{"a": 2, "b": 2, "c": 0} {
		sum, _ := r.read(t, history.Series{Kind: history.Backend, Group: "weather", Name: name}, "24h")
		if sum.Calls() != want {
			t.Errorf("%d calls of %s, want %d", sum.Calls(), name, want)
		}
	}
}

// TestShardsCountTogether: the calls that several shards record at the same time are all counted, each once, whether
// they are published or not.
func TestShardsCountTogether(t *testing.T) {
	t.Parallel()
	const shards, each = 8, 500
	r := newRig(t, 10)
	var all sync.WaitGroup
	for shard := range uint32(shards) {
		all.Go(func() {
			rec := r.record("weather", "get")
			rec.Shard = shard
			for range each {
				r.Record(rec)
			}
		})
	}
	check.Must(t, r.Publish(t.Context()))
	all.Wait()
	rows, err := r.LastHour(t.Context(), history.Tool, "weather")
	check.Must(t, err)
	for of, sum := range rows {
		if sum.Calls() != shards*each {
			t.Errorf("%d calls of %+v in the last hour, want %d", sum.Calls(), of, shards*each)
		}
	}
	r.Record(r.record("weather", "get"))
	r.Record(r.record("weather", "get"))
	for name, of := range map[string]history.Series{
		"fleet": {Kind: history.Fleet, Group: "weather"}, "tenant": history.TenantSeries("acme", "u1"),
		"tool":    {Kind: history.Tool, Group: "weather", Name: "get"},
		"backend": {Kind: history.Backend, Group: "weather", Name: "10.0.0.7:1"}} {
		if sum, _ := r.read(t, of, "1h"); sum.Calls() != shards*each+2 {
			t.Errorf("%d calls of the %s, want %d", sum.Calls(), name, shards*each+2)
		}
	}
	r.Record(r.record("weather", "get"))
	check.Must(t, r.Publish(t.Context()))
	span, _ := history.SpanOf("24h")
	points, err := r.replica(10).Read(t.Context(), history.Series{Kind: history.Fleet, Group: "weather"}, span)
	check.Must(t, err)
	if n := points[len(points)-1].Calls(); n != shards*each+3 {
		t.Errorf("%d calls are published, want %d", n, shards*each+3)
	}
}

// BenchmarkRecordInParallel counts calls of one route from all processors, each at a shard of its own.
func BenchmarkRecordInParallel(b *testing.B) {
	metrics, err := telemetry.NewMetrics(prometheus.NewPedanticRegistry(), telemetry.MetricsConfig{})
	check.Must(b, err)
	r := history.New(history.Config{Series: 200, Knows: func(string, string) bool { return true }})
	shards := atomic.Uint32{}
	b.RunParallel(func(pb *testing.PB) {
		rec := &telemetry.Record{Call: &call.Call{Tenant: "acme", Tool: "get_forecast", Capability: "weather"},
			Capability: metrics.Capability("weather"), TenantUID: "u1", Backend: "10.0.0.7:50051",
			Ended: 40 * time.Millisecond, Outcome: telemetry.Succeeded, Shard: shards.Add(1)}
		for pb.Next() {
			r.Record(rec)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	metrics, err := telemetry.NewMetrics(prometheus.NewPedanticRegistry(), telemetry.MetricsConfig{})
	check.Must(b, err)
	r := history.New(history.Config{Series: 200, Knows: func(string, string) bool { return true }})
	rec := &telemetry.Record{Call: &call.Call{Tenant: "acme", Tool: "get_forecast", Capability: "weather"},
		Capability: metrics.Capability("weather"), TenantUID: "u1", Backend: "10.0.0.7:50051",
		Ended: 40 * time.Millisecond, Outcome: telemetry.Succeeded}
	for b.Loop() {
		r.Record(rec)
	}
}
