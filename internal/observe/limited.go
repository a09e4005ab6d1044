package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// limited counts the calls of a tenant that a limit refused, and those that it would have refused
// were it in force.
type limited [call.NumLimits][2]atomic.Int64

// modes are the labels of the second index of limited.
var modes = [2]string{"enforced", "shadow"}

// Limited counts a call that is beyond a limit. With shadow it went on all the same.
func (t *TenantMetrics) Limited(l call.Limit, shadow bool) {
	if t == nil {
		return
	}
	mode := 0
	if shadow {
		mode = 1
	}
	t.limited[l][mode].Add(1)
}

// HasLimit says that a tenant has a limit, so that its series is there before it refuses anything.
func (t *TenantMetrics) HasLimit(l call.Limit) {
	if t != nil {
		t.limits[l].Store(true)
	}
}

func collectLimited(ch chan<- prometheus.Metric, desc *prometheus.Desc, t *TenantMetrics) {
	for l := range t.limited {
		for mode := range modes {
			if n := t.limited[l][mode].Load(); n > 0 || t.limits[l].Load() {
				ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), t.label, call.Limit(l).String(), modes[mode])
			}
		}
	}
}

// Leases is what became of questions to the store how much of its tenants' limits this replica may
// use. The counters only grow.
type Leases struct {
	Granted  int64 // it gave all that was asked for
	Denied   int64 // it gave less, or nothing
	OwnShare int64 // it did not answer in time, and the replica went by its own share
	Failed   int64 // questions that failed
}

// WatchLeases lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchLeases(ask func() Leases) { m.leases.Store(&ask) }

func collectLeases(ch chan<- prometheus.Metric, desc *prometheus.Desc, l Leases) {
	for result, n := range map[string]int64{"granted": l.Granted, "denied": l.Denied, "own_share": l.OwnShare, "failed": l.Failed} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), result)
	}
}
