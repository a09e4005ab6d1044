package ratelimit

import (
	"context"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Budgets reads the use of budgets from the store.
type Budgets interface {
	// Spent returns the calls of the current day and month for each name. The names have no values.
	Spent(ctx context.Context, of Owner, names []Name) ([]Spent, error)
}

// Spent is the use of the budgets of one limit.
type Spent struct{ Day, Month int64 }

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
	Burst int64 // of CallsPerSecond
	// Used is the use of budgets by all replicas, as last known; else of this one: calls in the last second, or
	// concurrent calls.
	Used  float64
	Held  int64 // unused leases of this replica
	Apart int   // values that this replica counts separately; 0: all are counted together
}

// UsageOf returns the use of a tenant's limits; nil: the settings of Single. The limits are those of the settings, also
// if the tenant has not called this replica. The error is that of Budgets.
func (l *Limiter) UsageOf(ctx context.Context, s *tenant.Settings) (Usage, error) {
	if s == nil {
		if s = l.single.Load(); s == nil {
			return Usage{}, nil
		}
	}
	u := Usage{Tenant: s.ID, Shadow: s.Limits.Shadow}
	if !s.Limits.Counted() {
		return u, nil
	}
	if known, ok := l.tenants.Load(s.ID); ok {
		if a := known.(*tenantState); a.owner.UID == s.UID() && sameLimits(&a.plan.Load().limits, &s.Limits) {
			u.Limits = a.usage(l.now())
			return u, nil
		}
	}
	var err error
	u.Limits, err = l.idleUsage(ctx, s)
	return u, err
}

// usage returns the use of the limits of a tenant that has called this replica recently.
func (a *tenantState) usage(now time.Duration) (all []LimitUsage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.plan.Load()
	for i := range p.rules {
		all = append(all, p.rules[i].usage(now)...)
	}
	return all
}

// idleUsage returns the use of the limits of a tenant that has not called this replica recently.
func (l *Limiter) idleUsage(ctx context.Context, s *tenant.Settings) (all []LimitUsage, err error) {
	each := s.Limits.All()
	spent := make([]Spent, len(each))
	var names []Name
	var of []int // indexes of the names
	for i := range each {
		if b := &each[i].Bounds; each[i].Per == "" && (b.PerDay > 0 || b.PerMonth > 0) {
			names, of = append(names, Name{Capability: each[i].Capability, Tool: each[i].Tool}), append(of, i)
		}
	}
	if len(names) > 0 && l.cfg.Budgets != nil {
		read, err := l.cfg.Budgets.Spent(ctx, Owner{s.ID, s.UID()}, names)
		if err != nil {
			return nil, err
		}
		for n, i := range of {
			spent[i] = read[n]
		}
	}
	for i := range each {
		all = append(all, rowsOf(&each[i], &use{spent: spent[i]})...)
	}
	return all, nil
}

// use is the use of one limit, for all values together.
type use struct {
	calls            float64 // in the last second
	leased           int64   // unused leases of calls
	concurrent, free int64   // permits
	apart            int
	spent            Spent
}

// usage returns that of one rule, for all values together. The caller holds the lock of the tenant's state.
func (r *rule) usage(now time.Duration) []LimitUsage {
	var u use
	r.each(func(s *scope) {
		if !s.name.Others && r.values != nil {
			u.apart++
		}
		u.calls += s.second.calls(now, s.used())
		u.leased += s.calls.left()
		u.free += s.permits.left()
		u.concurrent += s.held - s.permits.left()
		u.spent.Day, u.spent.Month = max(u.spent.Day, s.day.Calls), max(u.spent.Month, s.month.Calls)
	})
	return rowsOf(&r.of, &u)
}

// rowsOf returns a row for each bound of a limit.
func rowsOf(of *tenant.Limit, u *use) (all []LimitUsage) {
	name := Name{Per: of.Per, Capability: strings.Clone(of.Capability), Tool: strings.Clone(of.Tool)}
	for _, row := range [...]LimitUsage{
		{Limit: call.CallsPerSecond, Burst: int64(burst(&of.Bounds)), Used: u.calls, Held: u.leased},
		{Limit: call.Concurrent, Used: float64(u.concurrent), Held: u.free},
		{Limit: call.PerDay, Used: float64(u.spent.Day), Held: u.leased},
		{Limit: call.PerMonth, Used: float64(u.spent.Month), Held: u.leased},
	} {
		if row.Most = most(&of.Bounds, row.Limit); row.Most > 0 {
			row.Name, row.Apart = name, u.apart
			all = append(all, row)
		}
	}
	return all
}

// secondWindow counts the calls of the last second.
type secondWindow struct {
	since time.Duration // start of the current second
	used  int64         // used calls at since
	last  float64       // calls of the second before
}

// roll begins a new second, if the current one is over. used is the number of calls made so far.
func (w *secondWindow) roll(now time.Duration, used int64) {
	passed := now - w.since
	if passed < time.Second {
		return
	}
	w.last = float64(max(used-w.used, 0)) / passed.Seconds()
	w.since, w.used = now, used
}

// calls returns the calls of the last second. Those of the second before count as evenly spread.
func (w *secondWindow) calls(now time.Duration, used int64) float64 {
	w.roll(now, used)
	return w.last*(1-(now-w.since).Seconds()) + float64(max(used-w.used, 0))
}
