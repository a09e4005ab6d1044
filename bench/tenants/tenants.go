// Package tenants measures the cost of authenticating a call, charging its tenant's limits, and recording it, when all
// data is in memory.
package tenants

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

const (
	batches   = 4000
	batchSize = 64
)

// Result is the cost of one call: nanoseconds at the lowest decile of the batches, and allocations.
type Result struct {
	Identity, NoLimits, Limits, Record, All float64
	Allocs                                  float64
}

// rig holds the steps of one call.
type rig struct {
	keys     *tenant.Keys
	claim    tenant.Credentials
	limiter  *ratelimit.Limiter
	none     *tenant.Settings
	identity tenant.Identity
	call     call.Call
	metrics  *telemetry.Metrics
	recorder *telemetry.Recorder
	record   telemetry.Record
	begun    time.Time
	failed   error
}

// Measure requires a Redis without other users.
func Measure(ctx context.Context, url string) (r Result, err error) {
	store, err := redisstore.Open(redisstore.Config{URL: url, Timeout: 10 * time.Second})
	if err != nil {
		return r, err
	}
	defer store.Close()
	g := &rig{none: &tenant.Settings{ID: "globex"},
		limiter: ratelimit.New(ratelimit.Config{Store: store.Limits("bench")}), begun: time.Now()}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { g.limiter.Run(ctx) })
	defer running.Wait()
	defer stop()
	id, secret := tenant.NewCredential()
	g.keys, g.claim = tenant.NewKeys(nil), tenant.Credentials{Credential: tenant.Credential(id, secret)}
	bounds := tenant.Bounds{CallsPerSecond: tenant.MaxCalls, Concurrent: 100_000, PerDay: tenant.MaxCalls,
		PerMonth: tenant.MaxCalls}
	g.keys.Replace([]tenant.Key{{ID: id, Tenant: "acme", Hash: tenant.HashOf(secret, nil), Scopes: tenant.Invoke}},
		map[string]*tenant.Settings{"acme": {ID: "acme", Limits: tenant.Limits{Bounds: bounds}}}, nil)
	log := telemetry.NewAccessLog(io.Discard, telemetry.AccessLogConfig{})
	defer func() { _ = log.Close() }()
	if g.metrics, err = telemetry.NewMetrics(prometheus.NewRegistry(),
		telemetry.MetricsConfig{Log: log, Tenants: 100}); err != nil {
		return r, err
	}
	g.recorder = telemetry.NewRecorder(g.metrics, log)
	g.call = call.Call{Tenant: "acme", Capability: "weather", Tool: "get_current_weather", Method: call.Invoke,
		Dialect: call.Doc}
	g.record = telemetry.Record{Call: &g.call, Capability: g.metrics.Capability("weather"), Backend: "10.0.0.7:50051",
		BytesIn: 60, BytesOut: 120, Ended: time.Millisecond}
	g.identify()
	to := []*float64{&r.Identity, &r.NoLimits, &r.Limits, &r.Record, &r.All}
	for i, nanos := range best(g.identify, func() { g.limit(g.none) }, func() { g.limit(g.identity.Settings) }, g.keep,
		g.all) {
		*to[i] = nanos
	}
	r.Allocs = testing.AllocsPerRun(10_000, g.all)
	return r, g.failed
}

func (g *rig) all() {
	g.identify()
	g.limit(g.identity.Settings)
	g.keep()
}

func (g *rig) identify() {
	identity, _, refusal := g.keys.Lookup(g.claim)
	if refusal != nil {
		g.failed = refusal
	}
	g.identity = identity
	g.record.Tenant = g.metrics.Tenant(identity.Tenant)
}

// limit takes a permit and returns it at once. The few calls that wait for the store do not affect the median of a
// batch.
func (g *rig) limit(s *tenant.Settings) {
	var p ratelimit.Permit
	for {
		refusal, ok := g.limiter.Take(s, &g.call, 0, &p)
		if refusal != nil {
			g.failed = fmt.Errorf("a call was rejected: %w", refusal)
		}
		if ok || refusal != nil {
			break
		}
		waited := make(chan struct{})
		g.limiter.Wait(&p, func() { close(waited) })
		<-waited
	}
	g.limiter.Release(0, &p)
}

func (g *rig) keep() {
	g.record.Started = g.begun
	g.recorder.Record(&g.record)
}

// best returns the duration of each step's batch at the lowest decile. The steps alternate, because other processes may
// use the machine.
func best(steps ...func()) []float64 {
	took := make([][]time.Duration, len(steps))
	for range batches {
		for i, do := range steps {
			began := time.Now()
			for range batchSize {
				do()
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	nanos := make([]float64, len(steps))
	for i := range took {
		slices.Sort(took[i])
		nanos[i] = float64(took[i][batches/10].Nanoseconds()) / batchSize
	}
	return nanos
}
