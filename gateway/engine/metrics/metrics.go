// Package metrics has the metrics of fleets of OpenParallax engines at this replica. It is a separate collector,
// because internal/telemetry knows only calls.
package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/telemetry"
)

// Metrics has the counters of all fleets of engines. Engines are not labels, as backends are not elsewhere. It is
// safe for concurrent use.
type Metrics struct {
	fleets  func() []string
	tenants *telemetry.Metrics
	since   time.Time // start of the counters

	waiting, running, agents, turns, waited, cutOff, ofTenant *prometheus.Desc

	mu       sync.Mutex
	byFleet  map[string]*fleet
	byTenant map[string]*results // by label; telemetry bounds their number
}

// New returns Metrics, to be registered. fleets returns the ids of the configured fleets of engines; only they
// have series. tenants has the labels of tenants.
func New(fleets func() []string, tenants *telemetry.Metrics) *Metrics {
	one := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_"+name, help, labels, nil)
	}
	return &Metrics{
		fleets: fleets, tenants: tenants, since: time.Now(), byFleet: map[string]*fleet{}, byTenant: map[string]*results{},

		waiting: one("engine_messages_waiting", "Messages that wait at this replica for their turn at an engine.",
			"capability"),
		running: one("engine_messages_running",
			"Messages of this replica that engines work on, also if their callers have left.", "capability"),
		agents: one("engine_agents", "Agents that are connected to engines by way of this replica.", "capability"),
		turns: one("engine_turns_total", "Messages by how waiting for their turn ended: came, full: too many waited, "+
			"left: the caller did, unknown: Redis was unavailable.", "capability", "result"),
		waited: one("engine_turn_wait_seconds", "Time that messages waited whose turn came.", "capability"),
		cutOff: one("engine_cut_off_total", "Callers that did not get all events: reader_slow: they were too far behind, "+
			"stream_lost: the engine's stream broke.", "capability", "reason"),
		ofTenant: one("tenant_engine_turns_total", "Messages of a tenant to engines, by how waiting for their turn ended; "+
			"see capgate_engine_turns_total. Tenants without a label of their own are other.", "tenant", "result"),
	}
}

// fleet has the counters of one fleet.
type fleet struct {
	waiting, running, agents atomic.Int64

	turns  results
	waited telemetry.Histogram // of messages that got their turn
	cutOff [engine.NumCutOff]atomic.Int64
}

// results counts the outcomes of waiting.
type results [engine.NumTurnOutcomes]atomic.Int64

// Of returns the meter of a tenant's calls of a fleet; "" stands for no tenant.
func (m *Metrics) Of(capability, tenant string) engine.Meter {
	label := m.tenants.Tenant(tenant).Label()
	m.mu.Lock()
	defer m.mu.Unlock()
	to := meter{fleet: m.of(capability)}
	if label != "" {
		to.tenant = m.byTenant[label]
		if to.tenant == nil {
			to.tenant = new(results)
			m.byTenant[label] = to.tenant
		}
	}
	return to
}

// of returns a fleet's counters. The caller holds the lock.
func (m *Metrics) of(capability string) *fleet {
	f := m.byFleet[capability]
	if f == nil {
		f = new(fleet)
		m.byFleet[capability] = f
	}
	return f
}

// meter counts for a fleet and a tenant.
type meter struct {
	*fleet
	tenant *results // nil: no tenant
}

// AddWaiting implements engine.Meter.
func (m meter) AddWaiting(more int64) { m.waiting.Add(more) }

// AddRunning implements engine.Meter.
func (m meter) AddRunning(more int64) { m.running.Add(more) }

// AddAgents implements engine.Meter.
func (m meter) AddAgents(more int64) { m.agents.Add(more) }

// TurnEnded implements engine.Meter.
func (m meter) TurnEnded(how engine.TurnOutcome, after time.Duration) {
	m.turns[how].Add(1)
	if how == engine.TurnCame {
		m.waited.Observe(after)
	}
	if m.tenant != nil {
		m.tenant[how].Add(1)
	}
}

// CutOff implements engine.Meter.
func (m meter) CutOff(why engine.CutOff) { m.cutOff[why].Add(1) }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.waiting, m.running, m.agents, m.turns, m.waited, m.cutOff, m.ofTenant} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. Fleets that are no longer configured and tenants that lost their label
// are dropped.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	fleets, tenants := m.current()
	for name, f := range fleets {
		m.tell(ch, name, f)
	}
	for label, turns := range tenants {
		for how := range engine.NumTurnOutcomes {
			if n := turns[how].Load(); n > 0 {
				ch <- count(m.ofTenant, n, label, how.String())
			}
		}
	}
}

// current returns the counters of configured fleets and of current tenant labels.
func (m *Metrics) current() (map[string]*fleet, map[string]*results) {
	configured, labels := m.fleets(), m.tenants.Tenants()
	m.mu.Lock()
	defer m.mu.Unlock()
	fleets := make(map[string]*fleet, len(configured))
	for _, name := range configured {
		fleets[name] = m.of(name)
	}
	tenants := make(map[string]*results, len(m.byTenant))
	for _, label := range append(labels, telemetry.OtherTenant) {
		if turns := m.byTenant[label]; turns != nil {
			tenants[label] = turns
		}
	}
	m.byFleet, m.byTenant = maps.Clone(fleets), maps.Clone(tenants)
	return fleets, tenants
}

func (m *Metrics) tell(ch chan<- prometheus.Metric, name string, f *fleet) {
	gauge := func(desc *prometheus.Desc, n int64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), name)
	}
	gauge(m.waiting, f.waiting.Load())
	gauge(m.running, f.running.Load())
	gauge(m.agents, f.agents.Load())
	for how := range engine.NumTurnOutcomes {
		ch <- count(m.turns, f.turns[how].Load(), name, how.String())
	}
	for why := range engine.NumCutOff {
		ch <- count(m.cutOff, f.cutOff[why].Load(), name, why.String())
	}
	ch <- f.waited.Metric(m.waited, m.since, name)
}

func count(desc *prometheus.Desc, n int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
}
