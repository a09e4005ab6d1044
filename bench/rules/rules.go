// Package rules measures the cost of policy decisions from memory, with many rules in Redis.
package rules

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/policy"
)

// Sizes of the measurement.
const (
	Rules   = 1_000_000 // in Redis: one for each user
	Entries = 100_000   // in memory
	tenants = 100
	tries   = 5

	batches   = 4000
	batchSize = 64
)

// Result holds the best of several tries, per decision.
type Result struct {
	Warm               time.Duration // time to load all entries from Redis
	Hot, Zipf, Uniform float64       // ns; for a hundred callers, Zipf-distributed, and uniform
	Unknown            float64       // share of decisions that were not in memory
	Allocs             float64
}

func keyOf(i int) policy.Key {
	return policy.Key{Subject: policy.Subject{Tenant: fmt.Sprintf("tenant-%02d", i%tenants),
		User: fmt.Sprintf("user-%06d", i)},
		Capability: "weather", Tool: "get_current_weather"}
}

// Fill writes the rules to Redis directly: through the gateway, one at a time, it would take long.
func Fill(s *redistest.Server) {
	for tenant := range tenants {
		for at := tenant; at < Rules; {
			args := []any{"HSET", fmt.Sprintf("cg:{tenant-%02d:policy}:rules", tenant)}
			for range 1000 {
				args = append(args, fmt.Sprintf("user-%06d::weather:get_current_weather", at),
					`{"verdict":"allow","at":1}`)
				at += tenants
			}
			s.Do(args...)
		}
	}
}

// Allow sets a rule that lets a tenant call all tools of a capability.
func Allow(ctx context.Context, url, tenant, capability string) error {
	store, err := redisstore.Open(redisstore.Config{URL: url, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer store.Close()
	name := policy.Name{Capability: capability, Tool: policy.Any}
	return store.Policies().Set(ctx, policy.Rule{Tenant: tenant, Name: name, Verdict: call.Allow})
}

// callers returns the callers whose decisions are kept in memory.
type callers struct{}

func (callers) Save(context.Context, []policy.Key) error { return nil }

func (callers) Load(context.Context, int) ([]policy.Key, error) {
	keys := make([]policy.Key, Entries)
	for i := range keys {
		keys[i] = keyOf(i)
	}
	return keys, nil
}

// Measure measures a decider whose rules are in a Redis that Fill has filled.
func Measure(ctx context.Context, url string) (r Result, err error) {
	store, err := redisstore.Open(redisstore.Config{URL: url, Timeout: 10 * time.Second})
	if err != nil {
		return r, err
	}
	defer store.Close()
	d, err := policy.New(policy.Options{Store: store.Policies(), Entries: Entries, TTL: time.Hour})
	if err != nil {
		return r, err
	}
	d.Synced()
	began := time.Now()
	if _, err = d.Warm(ctx, callers{}); err != nil {
		return r, err
	}
	r.Warm = time.Since(began)
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, Entries-1)
	for _, order := range []struct {
		to   *float64
		next func() int
	}{
		{&r.Hot, func() int { return Entries - 1 - random.IntN(100) }},
		{&r.Zipf, func() int { return Entries - 1 - int(zipf.Uint64()) }},
		{&r.Uniform, func() int { return random.IntN(Entries) }},
	} {
		for range tries {
			took, unknown, err := decide(d, order.next)
			if err != nil {
				return r, err
			}
			if *order.to == 0 || took < *order.to {
				*order.to = took
			}
			r.Unknown += float64(unknown) / (3 * tries * batches * batchSize)
		}
	}
	c := callOf(Entries - 1)
	r.Allocs = testing.AllocsPerRun(1000, func() { d.Decide(&c) })
	return r, nil
}

func callOf(i int) call.Call {
	k := keyOf(i)
	return call.Call{Tenant: k.Tenant, User: k.User, Capability: k.Capability, Tool: k.Tool}
}

// decide returns the median time per decision over many batches. A call's words were just written, as in a gateway, so
// the measured cache misses are those of the decision cache alone.
func decide(d *policy.Decider, next func() int) (nanos float64, unknown int, err error) {
	var batch [batchSize]call.Call
	took := make([]time.Duration, batches)
	for round := range took {
		for i := range batch {
			batch[i] = callOf(next())
		}
		d.Synced()
		began := time.Now()
		for i := range batch {
			switch decision, known := d.Decide(&batch[i]); {
			case !known:
				unknown++
			case decision.Verdict != call.Allow:
				err = fmt.Errorf("%+v is decided as %+v", batch[i], decision)
			}
		}
		took[round] = time.Since(began)
	}
	slices.Sort(took)
	return float64(took[batches/2].Nanoseconds()) / float64(len(batch)), unknown, err
}
