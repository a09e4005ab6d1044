package approvals

import (
	"time"

	"github.com/capgate/capgate/internal/lib/metric"
)

// Metrics implements metric.Source.
func (k *Service) Metrics() *metric.Set {
	m := metric.New("capgate_approvals_")
	events := m.Add("events_total", "Events of approvals at this replica; granted counts calls that ran "+
		"because of an answer for their session.",
		"event")
	refused := m.Add("refused_total", "Calls that were refused because of an approval, by reason.", "reason")
	waiting := m.Add("waiting", "Calls that wait for an answer to their approval.")
	ttl := m.Add("ttl_seconds", "Time to answer an approval, after which it expires.")
	m.Read = func(w metric.Writer) {
		a := k.Stats()
		w.Gauge(ttl, k.opts.TTL.Seconds())
		w.Count(events, a.Asked, "asked")
		w.Count(events, a.Granted, "granted")
		w.Count(events, a.Approved, "approved")
		w.Count(events, a.Denied, "denied")
		w.Count(events, a.Used, "used")
		w.Count(events, a.Released, "released")
		w.Count(events, a.Expired, "expired")
		for reason, n := range a.Refused {
			w.Count(refused, n, reason)
		}
		w.Gauge(waiting, float64(a.Waiting))
	}
	return m
}

// Metrics returns the metrics of pending approvals. label returns the label of a tenant; tenants beyond a maximum share
// one.
func (p *Backlogs) Metrics(label func(tenant string) string) *metric.Set {
	m := metric.New("capgate_approvals_")
	pending := m.Add("pending", "Unanswered approvals at all replicas, as counted a few seconds ago.", "tenant")
	age := m.Add("pending_age_seconds", "Age of the oldest unanswered approval.", "tenant")
	m.Read = func(w metric.Writer) {
		all := map[string]Backlog{}
		for of, found := range p.Snapshot() {
			name := label(of)
			sum, there := all[name]
			if sum.Count += found.Count; !there || found.Oldest.Before(sum.Oldest) {
				sum.Oldest = found.Oldest
			}
			all[name] = sum
		}
		for tenant, sum := range all {
			w.Gauge(pending, float64(sum.Count), tenant)
			w.Gauge(age, max(0, time.Since(sum.Oldest).Seconds()), tenant)
		}
	}
	return m
}
