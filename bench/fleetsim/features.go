package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router/affinity"
)

// shared is one replica's part of a feature that shares state in Redis. It runs the code that a gateway runs.
type shared struct {
	name string
	// start returns the goroutines of the feature at one replica.
	start func(r *replica) []func(context.Context)
}

// replica is one gateway's connection to Redis.
type replica struct {
	id     string
	of     int // number of replicas
	store  *redisstore.Store
	drains *drains.Manager
	rate   int // calls a second
}

// features lists what gateways share in Redis.
func features() []shared {
	return []shared{
		{"health: heartbeats and shards", func(r *replica) []func(context.Context) {
			board := r.store.Health()
			p := health.New(nil, health.Options{Shared: &health.Shared{ID: r.id, Heartbeat: 2 * time.Second,
				Membership: board, Store: board, Stale: 30 * time.Second, Reconcile: 10 * time.Second,
				Used: func(string, string) bool { return false }}})
			return []func(context.Context){p.Run}
		}},
		{"recent calls", startRecent},
		{"history", func(r *replica) []func(context.Context) {
			l := history.New(history.Config{Series: 200, Replica: r.id, Version: "v1.0.0", Store: r.store.History(),
				Knows:  func(string, string) bool { return true },
				States: func() []history.State { return nil }})
			return append(callsOf(r, l.Record), l.Run)
		}},
		{"catalog", func(r *replica) []func(context.Context) {
			c := catalog.New(catalog.Options{Store: r.store.Catalog(), Rules: r.store.Policies()})
			return []func(context.Context){c.Run, func(ctx context.Context) { c.KeepVersions(ctx, r.store.Versions()) }}
		}},
		{"sessions of people", func(r *replica) []func(context.Context) {
			return []func(context.Context){session.New(r.store.People(), session.Options{}).Run}
		}},
		{"drains", func(r *replica) []func(context.Context) {
			r.drains = drains.New(r.id, r.store.Drains(), noFleets{}, discard)
			return []func(context.Context){r.drains.Run}
		}},
		{"sessions and requests of MCP", func(r *replica) []func(context.Context) {
			return []func(context.Context){affinity.New(affinity.Config{}, r.store.Sessions()).Run,
				func(ctx context.Context) { r.store.Cancellations().Watch(ctx, func(string) {}, func() {}) }}
		}},
		{"rules, tenants and keys", startRules},
		{"registered backends", func(r *replica) []func(context.Context) {
			return []func(context.Context){registry.New(r.store.Registrations(), registry.Settings{},
				registry.Options{}).Run}
		}},
		{"approvals, idempotency keys and turns", startApprovals},
	}
}

func startRules(r *replica) []func(context.Context) {
	d := must(policy.New(policy.Options{Store: r.store.Policies()}))
	t := tenant.NewStored(r.store.Tenants(), tenant.Options{})
	return []func(context.Context){
		func(ctx context.Context) { d.Watch(ctx, r.store.Policies()) },
		func(ctx context.Context) { d.PersistRecent(ctx, r.store.Policies()) },
		t.Watch,
	}
}

func startApprovals(r *replica) []func(context.Context) {
	s := must(approvals.New(r.store.Approvals(), approvals.Options{Keys: [][]byte{make([]byte, 32)}}))
	e := approvals.NewEscalations(s, func(context.Context, string, int) ([]string, string, error) {
		return nil, "", nil
	})
	i := must(idempotency.New(r.store.Idempotency(), idempotency.Options{Keys: [][]byte{make([]byte, 32)}}))
	return []func(context.Context){s.Run, e.Run, i.Run, turns.New(r.store.EngineTurns(), turns.Options{}).Run}
}

// startRecent starts the list of recent calls, and records calls of the replica in it.
func startRecent(r *replica) []func(context.Context) {
	started := time.Now()
	store := r.store.Recent()
	l := recent.New(recent.Config{Keep: 500, Replica: r.id, Store: store, Archive: store,
		Replicas: func() int { return r.of },
		Bounds:   strictyaml.Defaults[recent.Bounds](),
		Self: func() recent.Replica {
			return recent.Replica{Version: "v1.0.0", Started: started, Redis: "ok", Ready: true}
		}})
	return append(callsOf(r, l.Record), l.Run)
}

// callsOf returns a loop that records r.rate calls a second.
func callsOf(r *replica, record func(*telemetry.Record)) []func(context.Context) {
	if r.rate <= 0 {
		return nil
	}
	return []func(context.Context){func(ctx context.Context) {
		tick := time.NewTicker(time.Second / time.Duration(min(r.rate, 10)))
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for range max(r.rate/10, 1) {
				n++
				record(recordOf(r, n))
			}
		}
	}}
}

func recordOf(r *replica, n int) *telemetry.Record {
	return &telemetry.Record{
		Call: &call.Call{Tenant: fmt.Sprintf("tenant-%d", n%20),
			Capability: "weather", Tool: "get_current_weather", User: "ann", Agent: "planner"},
		TenantUID: strings.Repeat("a", 26), Client: "10.0.0.1", Backend: "10.0.0.7:50051", Attempts: 1,
		BytesIn: 200, BytesOut: 900, Started: time.Now(), Forwarded: time.Millisecond, FirstByte: 2 * time.Millisecond,
		Ended: 3 * time.Millisecond, RequestID: fmt.Sprintf("%s-%d", r.id, n),
	}
}

// noFleets reports that drained backends have no calls.
type noFleets struct{}

func (noFleets) SetDrains([]drains.Drain)       {}
func (noFleets) Calls(drains.Key) (int64, bool) { return 0, true }
