package ratelimit

import (
	"math"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Peak is the greatest use of one limit since the last call of Peaks. That of a limit per user, agent or capability is
// of the value with the greatest use.
type Peak struct {
	Name  Name // without a value
	Limit call.Limit
	Most  int64
	// Used is the use of a budget by all replicas, as last known. For Concurrent it includes the permits of other
	// replicas, of which some may be unused. For CallsPerSecond it is the use of this replica.
	Used  int64
	Day   int64 // number of the day since 1970, UTC
	Month int64 // number of the month as in BudgetUse; 0 unless the limit is PerMonth
}

// Period returns the number of the day or month for which a budget counts, and 0 for other limits.
func (p *Peak) Period() int64 {
	switch p.Limit { //nolint:exhaustive // the others have no period
	case call.PerDay:
		return p.Day
	case call.PerMonth:
		return p.Month
	}
	return 0
}

// peaks has the greatest uses of a scope since the last call of Peaks. They are sampled once a second.
type peaks struct{ calls, concurrent int64 }

// note samples the use. The caller holds the lock of the tenant's state, and has rolled the second.
func (s *scope) note() {
	concurrent := s.before
	if limit := int64(s.bounds.Load().Concurrent); concurrent > 0 && limit > concurrent {
		concurrent += min(s.local.others, limit-concurrent)
	}
	s.peaks.concurrent = max(s.peaks.concurrent, concurrent)
	s.peaks.calls = max(s.peaks.calls, int64(math.Round(s.second.last)))
}

// Peaks visits the tenants that have called this replica recently, with the used limits of each.
func (l *Limiter) Peaks(visit func(of Owner, peaks []Peak)) {
	today := time.Now().Unix() / int64(24*time.Hour/time.Second)
	l.tenants.Range(func(_, v any) bool {
		a := v.(*tenantState)
		if all := a.takePeaks(today); len(all) > 0 {
			visit(a.owner, all)
		}
		return true
	})
}

func (a *tenantState) takePeaks(today int64) (all []Peak) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.plan.Load()
	for i := range p.rules {
		all = append(all, p.rules[i].takePeaks(today)...)
	}
	return all
}

// takePeaks returns a peak for each used bound of a rule.
func (r *rule) takePeaks(today int64) (all []Peak) {
	calls, concurrent := Peak{Limit: call.CallsPerSecond, Day: today}, Peak{Limit: call.Concurrent, Day: today}
	day, month := Peak{Limit: call.PerDay}, Peak{Limit: call.PerMonth}
	r.each(func(s *scope) {
		calls.Used, concurrent.Used = max(calls.Used, s.peaks.calls), max(concurrent.Used, s.peaks.concurrent)
		s.peaks = peaks{}
		day.raise(s.day.Period, 0, s.day.Calls)
		month.raise(s.day.Period, s.month.Period, s.month.Calls)
	})
	for _, p := range [...]Peak{calls, concurrent, day, month} {
		p.Name = Name{Per: r.of.Per, Capability: r.of.Capability, Tool: r.of.Tool}
		if p.Most = most(&r.of.Bounds, p.Limit); p.Most > 0 && p.Used > 0 && p.Day > 0 {
			all = append(all, p)
		}
	}
	return all
}

// raise adds the use of one value. That of a later day takes the place of earlier ones.
func (p *Peak) raise(day, month, used int64) {
	if day > p.Day {
		p.Day, p.Month, p.Used = day, month, 0
	}
	if day == p.Day {
		p.Used = max(p.Used, used)
	}
}

// LimitsOf returns the owner and the limits of settings, without their use; nil means the settings of Single. A gateway
// without tenants and limits has an empty owner.
func (l *Limiter) LimitsOf(s *tenant.Settings) (of Owner, all []LimitUsage) {
	if s == nil {
		if s = l.single.Load(); s == nil {
			return Owner{}, nil
		}
	}
	for _, limit := range s.Limits.All() {
		all = append(all, rowsOf(&limit, &use{})...)
	}
	return Owner{s.ID, s.UID()}, all
}
