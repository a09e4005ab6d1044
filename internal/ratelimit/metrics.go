package ratelimit

import (
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/metric"
)

// Metrics implements metric.Source.
func (l *Limiter) Metrics() *metric.Set {
	m := metric.New("capgate_limit_")
	leases := m.Add("leases_total", "Requests of this replica for permits of tenants' limits, by result.", "result")
	used := m.Add("used_ratio", "Used part of the calls a day or a month that a tenant may make: the most used "+
		"one of its limits, as this replica knows it. Tenants without a label of their own are other.", "tenant",
		"limit")
	m.Read = func(w metric.Writer) {
		s := l.Stats()
		w.Count(leases, s.Granted, "granted")
		w.Count(leases, s.Denied, "denied")
		w.Count(leases, s.OwnShare, "own_share")
		w.Count(leases, s.Failed, "failed")
		for of, ratio := range l.usedQuotas() {
			w.Gauge(used, ratio, of.tenant, of.limit.String())
		}
	}
	return m
}

// quota names a budget of a tenant, by the tenant's label.
type quota struct {
	tenant string
	limit  call.Limit
}

// usedQuotas returns the used part of the most used budgets of the tenants that have called this replica recently.
func (l *Limiter) usedQuotas() map[quota]float64 {
	all := map[quota]float64{}
	if l.cfg.Label == nil {
		return all
	}
	now := l.now()
	l.tenants.Range(func(_, v any) bool {
		state := v.(*tenantState)
		label := l.cfg.Label(state.owner.ID)
		if label == "" { // a deleted tenant, whose state ends later
			return true
		}
		for _, row := range state.usage(now) {
			if row.Limit == call.PerDay || row.Limit == call.PerMonth {
				of := quota{label, row.Limit}
				all[of] = max(all[of], row.Used/float64(row.Most))
			}
		}
		return true
	})
	return all
}
