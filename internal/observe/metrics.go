package observe

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxCells bounds the cells of a row: 512 bytes each for every capability, method
// and code that occurs, and 64 for each power of two in which its latencies are.
const maxCells = 8

// MetricsConfig describes the process that is measured.
type MetricsConfig struct {
	Version  string     // label of capgate_build_info
	Revision string     // label of capgate_build_info: the commit
	Log      *AccessLog // whose dropped lines are counted; may be nil
	Tenants  int        // how many tenants get a label of their own; all others share one
}

// Metrics are the gateway's counters.
type Metrics struct {
	registry   *prometheus.Registry
	cfg        MetricsConfig
	cells      int                // of every row; a power of two
	since      time.Time          // when everything was 0
	unknown    *CapabilityMetrics // calls without a known capability; not in byName
	tenants    *tenants
	refusals   reasonCounter
	failures   reasonCounter
	upstreams  atomic.Pointer[func() int]
	fleets     atomic.Pointer[iter.Seq[Fleet]]
	tools      atomic.Pointer[iter.Seq[Tools]]
	config     atomic.Pointer[func() ConfigLoads]
	redis      atomic.Pointer[func() Redis]
	health     atomic.Pointer[func() Health]
	members    atomic.Pointer[func() Registry]
	shields    atomic.Pointer[func() []Shield]
	overload   atomic.Pointer[func() Overload]
	leases     atomic.Pointer[func() Leases]
	affinity   *affinityCollector
	policy     *policyCollector
	approvals  *approvalsCollector
	webhook    *webhookCollector
	identities *identityCollector
	issuers    *issuersCollector
	traces     *tracesCollector

	mu     sync.Mutex // guards byName; never held while a call is counted
	byName map[string]*CapabilityMetrics
}

// NewMetrics registers the gateway's metrics, and those of the Go runtime and of
// the process, in reg.
func NewMetrics(reg *prometheus.Registry, cfg MetricsConfig) (*Metrics, error) {
	m := &Metrics{registry: reg, cfg: cfg, cells: cellsFor(runtime.GOMAXPROCS(0)), since: time.Now(), byName: make(map[string]*CapabilityMetrics)}
	m.affinity, m.policy, m.approvals = newAffinityCollector(), newPolicyCollector(m.cells), newApprovalsCollector()
	m.webhook, m.identities = newWebhookCollector(), newIdentityCollector()
	m.issuers = newIssuersCollector()
	m.traces = newTracesCollector()
	m.unknown, m.tenants = newCapabilityMetrics("", m.cells), newTenants(cfg.Tenants, m.cells)
	err := errors.Join(
		reg.Register(collectors.NewGoCollector()),
		reg.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		reg.Register(newCollector(m)),
		reg.Register(m.affinity),
		reg.Register(m.policy),
		reg.Register(m.approvals),
		reg.Register(m.webhook),
		reg.Register(m.identities),
		reg.Register(m.issuers),
		reg.Register(m.traces),
	)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// cellsFor returns the power of two that is not below procs, at most maxCells.
func cellsFor(procs int) int {
	n := 1
	for n < procs && n < maxCells {
		n *= 2
	}
	return n
}

// Capability returns the handle of a configured capability, always the same one
// for the same name. Names become label values: never pass one that a client sent.
func (m *Metrics) Capability(name string) *CapabilityMetrics {
	if name == "" {
		return m.unknown
	}
	name = strings.ToValidUTF8(name, "\uFFFD")
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.byName[name]
	if c == nil {
		c = newCapabilityMetrics(name, m.cells)
		m.byName[name] = c
	}
	return c
}

// Forget drops the series of a capability that is configured no more. Calls that
// still hold its handle end without being seen.
func (m *Metrics) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, strings.ToValidUTF8(name, "\uFFFD"))
}

// WatchUpstreams lets every scrape report count's answer as the number of open
// connections to backends. count may be called from any goroutine.
func (m *Metrics) WatchUpstreams(count func() int) {
	m.upstreams.Store(&count)
}

// Handler serves the registry: in Prometheus' protobuf format to who asks for it, which alone has native
// histograms, in OpenMetrics' text, which has exemplars too, or in Prometheus' text.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// handle returns where a record is counted.
func (m *Metrics) handle(rec *Record) *CapabilityMetrics {
	if rec.Capability == nil {
		return m.unknown
	}
	return rec.Capability
}

// count adds a finished call.
func (m *Metrics) count(rec *Record) {
	m.handle(rec).count(rec)
	rec.Tenant.count(rec)
	m.policy.count(rec.Shard, rec.Decision)
	if rec.Reason != "" {
		m.refusals.add(rec.Reason)
	}
	if rec.Failure != "" {
		m.failures.add(rec.Failure)
	}
}

// capabilities returns every handle, the unknown one first.
func (m *Metrics) capabilities() []*CapabilityMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.AppendSeq([]*CapabilityMetrics{m.unknown}, maps.Values(m.byName))
}
