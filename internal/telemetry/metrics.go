package telemetry

import (
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// maxCells bounds the cells of a row: 512 bytes each for every capability, method
// and code that occurs, and 64 for each power of two in which its latencies are.
const maxCells = 8

// MetricsConfig describes the process.
type MetricsConfig struct {
	// Number of tenants with series of their own: those of the file with limits, and then the first that call. All
	// others share tenant="other".
	Tenants int `yaml:"tenants" min:"0" max:"10000" default:"100"`
	// Number of tools with series of their own, of all capabilities: the first that capabilities declare or list. The
	// others of a capability share tool="other".
	Tools int `yaml:"tools" min:"0" max:"10000" default:"500"`
	// The same for backends.
	Backends int `yaml:"backends" min:"0" max:"10000" default:"500"`

	Version  string     // label of capgate_build_info
	Revision string     // label of capgate_build_info: the commit
	Log      *AccessLog // for the count of its dropped lines; may be nil
}

// Metrics are the gateway's counters.
type Metrics struct {
	registry  *prometheus.Registry
	cfg       MetricsConfig
	cells     int                // of every row; a power of two
	since     time.Time          // when all counters were 0
	unknown   *CapabilityMetrics // calls without a known capability; not in byName
	tenants   *tenants
	refusals  reasonCounter
	failures  reasonCounter
	asked     atomic.Int64 // calls that need approval, which are no refusals
	decisions *decisions
	answers   *prometheus.HistogramVec

	mu         sync.Mutex // guards the fields below; never held while a call is counted
	byName     map[string]*CapabilityMetrics
	freeLabels [numKinds]int // that are left
}

// NewMetrics registers the gateway's metrics, and those of the Go runtime and of
// the process, in reg.
func NewMetrics(reg *prometheus.Registry, cfg MetricsConfig) (*Metrics, error) {
	m := &Metrics{
		registry: reg, cfg: cfg, cells: Cells(), since: time.Now(),
		byName:  make(map[string]*CapabilityMetrics),
		answers: newAnswers(), freeLabels: [numKinds]int{max(cfg.Tools, 0), max(cfg.Backends, 0)},
	}
	m.unknown, m.tenants, m.decisions = newCapabilityMetrics("", m.cells), newTenants(cfg.Tenants, m.cells),
		newDecisions(m.cells)
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(m), newTenantMetrics(m.tenants), newLabelledMetrics(m, tools),
		newLabelledMetrics(m, backends), m.decisions, m.answers,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, m.Add(panics())
}

// Describe implements prometheus.Collector for all metrics.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) { m.registry.Describe(descs) }

// Cells returns the number of cells over which Record.Shard spreads what is counted, a power of two.
func Cells() int { return cellsFor(runtime.GOMAXPROCS(0)) }

// cellsFor returns the power of two that is not below procs, at most maxCells.
func cellsFor(procs int) int {
	n := 1
	for n < procs && n < maxCells {
		n *= 2
	}
	return n
}

// Capability returns the handle of a configured capability, the same one for the same name. Names become label
// values: never pass one that a client sent.
func (m *Metrics) Capability(name string) *CapabilityMetrics {
	if name == "" {
		return m.unknown
	}
	name = untrusted.UTF8(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.byName[name]
	if c == nil {
		c = newCapabilityMetrics(name, m.cells)
		m.byName[name] = c
	}
	return c
}

// Forget drops the series of a capability that is no longer configured. Running calls with its handle end
// without being counted.
func (m *Metrics) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = untrusted.UTF8(name)
	if c := m.byName[name]; c != nil {
		for of := range c.labels {
			m.freeLabels[of] += len(c.labels[of].Load().byName)
		}
	}
	delete(m.byName, name)
}

// Handler serves the registry in the format that the client requests: Prometheus' protobuf, which alone has
// native histograms, OpenMetrics' text, which has exemplars too, or Prometheus' text.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// handle returns the handle that counts a record.
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
	m.decisions.count(rec.Shard, rec.Decision)
	switch rec.Result() {
	case Refused:
		m.refusals.add(rec.Reason)
	case Asked:
		m.asked.Add(1)
	case Answered, ToolFailed, Failed, NumResults:
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
