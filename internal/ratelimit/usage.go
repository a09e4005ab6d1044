package ratelimit

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Usage is a tenant's use of its limits.
type Usage struct {
	Tenant string
	Shadow bool // shadow mode: calls are not rejected
	Limits []LimitUsage
}

// LimitUsage is the use of one limit.
type LimitUsage struct {
	Name  Name
	Limit call.Limit
	Most  int64
	// Used is the use of budgets by all replicas, as last known; else of this one: recent calls per second, or
	// concurrent calls.
	Used  float64
	Held  int64 // unused leases of this replica
	Apart int   // values that this replica counts separately; 0: all are counted together
}

// Usage returns that of at most most tenants that called this replica recently, by their ids, beginning after one.
func (l *Limiter) Usage(after string, most int) []Usage {
	var ids []string
	l.tenants.Range(func(id, _ any) bool {
		if id.(string) > after {
			ids = append(ids, id.(string))
		}
		return true
	})
	slices.Sort(ids)
	all := make([]Usage, 0, min(len(ids), most))
	for _, id := range ids[:min(len(ids), most)] {
		if u, ok := l.UsageOf(id); ok {
			all = append(all, u)
		}
	}
	return all
}

// UsageOf returns that of one tenant; ok is false if it did not call this replica recently.
func (l *Limiter) UsageOf(tenant string) (u Usage, ok bool) {
	known, ok := l.tenants.Load(tenant)
	if !ok {
		return Usage{}, false
	}
	a := known.(*tenantState)
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.plan.Load()
	u = Usage{Tenant: strings.Clone(tenant), Shadow: p.limits.Shadow}
	for i := range p.rules {
		u.Limits = append(u.Limits, p.rules[i].usage()...)
	}
	return u, true
}

// usage returns that of one rule, for all values together. The caller holds the lock of the tenant's state.
func (r *rule) usage() (all []LimitUsage) {
	var demand float64
	var calls, used, free int64
	apart := 0
	name := Name{Per: r.of.Per, Capability: r.of.Capability, Tool: r.of.Tool}
	var day, month int64
	r.each(func(s *scope) {
		if !s.name.Others && r.values != nil {
			apart++
		}
		demand += s.demand
		calls += s.calls.left()
		free += s.permits.left()
		used += s.held - s.permits.left()
		day, month = max(day, s.day.Calls), max(month, s.month.Calls)
	})
	b := &r.of.Bounds
	for _, of := range [...]struct {
		limit call.Limit
		used  float64
		held  int64
	}{{call.CallsPerSecond, demand, calls}, {call.Concurrent, float64(used), free}, {call.PerDay, float64(day), calls},
		{call.PerMonth, float64(month), calls}} {
		if m := most(b, of.limit); m > 0 {
			all = append(all, LimitUsage{Name: name, Limit: of.limit, Most: m, Used: of.used, Held: of.held, Apart: apart})
		}
	}
	return all
}
