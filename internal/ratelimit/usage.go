package ratelimit

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Usage is how much of its limits a tenant uses.
type Usage struct {
	Tenant string
	Shadow bool // nothing is refused
	Limits []UsageOf
}

// UsageOf is one limit's.
type UsageOf struct {
	Name  Name
	Limit call.Limit
	Most  int64
	Used  float64 // of budgets by all replicas, as was heard last, else by this one: calls per second of late, or at once
	Held  int64   // that this replica has at hand, leased and not used
	Apart int     // users or the like that this replica counts apart; 0 where all are counted together
}

// Usage is that of the tenants that called this replica of late, by their ids, beginning after one, most of them at most.
func (l *Limiter) Usage(after string, most int) []Usage {
	var ids []string
	l.accounts.Range(func(id, _ any) bool {
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

// UsageOf is that of one tenant; not ok if it did not call this replica of late.
func (l *Limiter) UsageOf(tenant string) (u Usage, ok bool) {
	known, ok := l.accounts.Load(tenant)
	if !ok {
		return Usage{}, false
	}
	a := known.(*account)
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.plan.Load()
	u = Usage{Tenant: strings.Clone(tenant), Shadow: p.limits.Shadow}
	for i := range p.rules {
		u.Limits = append(u.Limits, p.rules[i].usage()...)
	}
	return u, true
}

// usage is that of one rule, of all values together. The caller holds the account's lock.
func (r *rule) usage() (all []UsageOf) {
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
		free += s.places.left()
		used += s.held - s.places.left()
		day, month = max(day, s.day.Calls), max(month, s.month.Calls)
	})
	b := &r.of.Bounds
	for _, of := range [...]struct {
		limit call.Limit
		used  float64
		held  int64
	}{{call.CallsPerSecond, demand, calls}, {call.Concurrent, float64(used), free}, {call.PerDay, float64(day), calls}, {call.PerMonth, float64(month), calls}} {
		if m := most(b, of.limit); m > 0 {
			all = append(all, UsageOf{Name: name, Limit: of.limit, Most: m, Used: of.used, Held: of.held, Apart: apart})
		}
	}
	return all
}
