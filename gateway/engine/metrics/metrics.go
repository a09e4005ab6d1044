// Package metrics contains the metrics of fleets of OpenParallax engines at this replica.
package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/lib/metric"
	"github.com/capgate/capgate/internal/telemetry"
)

// Metrics holds the counters of all fleets of engines. Engines are not labels, like backends elsewhere. It is safe for
// concurrent use.
type Metrics struct {
	fleets  func() []string
	tenants *telemetry.Metrics

	mu       sync.Mutex
	byFleet  map[string]*fleet
	byTenant map[string]*results // by label; telemetry limits their number
}

// New returns Metrics. fleets returns the ids of the configured fleets of engines; only they have series. tenants has
// the labels of tenants.
func New(fleets func() []string, tenants *telemetry.Metrics) *Metrics {
	return &Metrics{fleets: fleets, tenants: tenants, byFleet: map[string]*fleet{}, byTenant: map[string]*results{}}
}

// fleet holds the counters of one fleet.
type fleet struct {
	waiting, running, agents atomic.Int64

	turns  results
	waited telemetry.Histogram // for messages that got their turn
	cutOff [engine.NumCutOff]atomic.Int64
}

// results counts the outcomes of waiting.
type results [engine.NumTurnOutcomes]atomic.Int64

// Of returns the meter of a tenant's calls of a fleet. An empty tenant means none.
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

// of returns a fleet's counters. The caller must hold the lock.
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
	tenant *results // nil means no tenant
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

// Metrics implements metric.Source. Fleets that are no longer configured, and tenants without a label, are dropped.
func (m *Metrics) Metrics() *metric.Set {
	set := metric.New("capgate_")
	waiting := set.Add("engine_messages_waiting", "Messages that wait at this replica for their turn at an engine.",
		"capability")
	running := set.Add("engine_messages_running",
		"Messages of this replica that engines work on, also if their callers have left.", "capability")
	agents := set.Add("engine_agents", "Agents that are connected to engines by way of this replica.", "capability")
	turns := set.Add("engine_turns_total",
		"Messages by the end of their wait for a turn: came; full: too many were waiting; "+
			"left: the caller left; unknown: Redis was unavailable.", "capability", "result")
	waited := set.Add("engine_turn_wait_seconds",
		"Time that messages waited for their turn, of those that got it.", "capability")
	cutOff := set.Add("engine_cut_off_total",
		"Callers that did not get all events; reader_slow: they were too far behind; "+
			"stream_lost: the engine's stream broke.", "capability", "reason")
	ofTenant := set.Add("tenant_engine_turns_total", "Messages of a tenant to engines, by the end of their wait for "+
		"a turn; see capgate_engine_turns_total. Tenants without a label of their own are other.", "tenant", "result")
	set.Read = func(w metric.Writer) {
		fleets, tenants := m.current()
		for name, f := range fleets {
			w.Gauge(waiting, float64(f.waiting.Load()), name)
			w.Gauge(running, float64(f.running.Load()), name)
			w.Gauge(agents, float64(f.agents.Load()), name)
			for how := range engine.NumTurnOutcomes {
				w.Count(turns, f.turns[how].Load(), name, how.String())
			}
			for why := range engine.NumCutOff {
				w.Count(cutOff, f.cutOff[why].Load(), name, why.String())
			}
			f.waited.Write(w, waited, name)
		}
		for label, turns := range tenants {
			for how := range engine.NumTurnOutcomes {
				if n := turns[how].Load(); n > 0 {
					w.Count(ofTenant, n, label, how.String())
				}
			}
		}
	}
	return set
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
