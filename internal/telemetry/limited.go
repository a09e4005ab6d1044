package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// limited counts the calls of a tenant that a limit rejected, and those that a shadow limit would have
// rejected.
type limited [call.NumLimits][2]atomic.Int64

// modes are the labels of the second index of limited.
var modes = [2]string{"enforced", "shadow"}

// Limited counts a call beyond a limit. With shadow, the call continued.
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

// HasLimit records that a tenant has a limit, so that its series exists before a rejection.
func (t *TenantMetrics) HasLimit(l call.Limit) {
	if t != nil {
		t.limits[l].Store(true)
	}
}

func (t *TenantMetrics) emitLimited(to emitter, desc *prometheus.Desc) {
	for l := range t.limited {
		for mode := range modes {
			if n := t.limited[l][mode].Load(); n > 0 || t.limits[l].Load() {
				to.count(desc, n, t.label, call.Limit(l).String(), modes[mode])
			}
		}
	}
}
