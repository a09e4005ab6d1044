package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// EngineMetrics is the handle of what one fleet of OpenParallax engines counts, at this replica.
type EngineMetrics struct {
	waiting, running, agents atomic.Int64

	turns  [call.NumTurned]atomic.Int64
	waited latencies // of those whose turn came
	cutOff [call.NumCutOff]atomic.Int64
}

// Engine returns the handle of a fleet of engines, always the same one. Its series are there from then on.
func (c *CapabilityMetrics) Engine() *EngineMetrics {
	if c.engine.Load() == nil {
		c.engine.CompareAndSwap(nil, new(EngineMetrics))
	}
	return c.engine.Load()
}

// Waits counts who waits for a turn: more, or fewer.
func (e *EngineMetrics) Waits(more int64) { e.waiting.Add(more) }

// Runs counts turns that go on.
func (e *EngineMetrics) Runs(more int64) { e.running.Add(more) }

// Attends counts agents that are connected.
func (e *EngineMetrics) Attends(more int64) { e.agents.Add(more) }

// Turned counts a message that does not wait any more, of a tenant, which may be nil.
func (e *EngineMetrics) Turned(t *TenantMetrics, how call.Turned, after time.Duration) {
	e.turns[how].Add(1)
	if how == call.TurnCame {
		e.waited.count(after, bucketOf(after))
	}
	if t != nil {
		t.turns[how].Add(1)
	}
}

// CutOff counts a caller that did not get all events.
func (e *EngineMetrics) CutOff(why call.CutOff) { e.cutOff[why].Add(1) }

// engineMetrics are those of fleets of engines. None has an engine as a label, as no other has a backend.
type engineMetrics struct {
	metrics
	from *Metrics

	waiting, running, agents, turns, waited, cutOff *prometheus.Desc
}

func newEngineMetrics(from *Metrics) *engineMetrics {
	m := &engineMetrics{metrics: metrics{prefix: "capgate_engine_"}, from: from}
	m.waiting = m.add("messages_waiting", "Messages that wait at this replica for their turn at an engine.", "capability")
	m.running = m.add("messages_running", "Messages of this replica that engines work on, also if their callers have left.", "capability")
	m.agents = m.add("agents", "Agents that are connected to engines by way of this replica.", "capability")
	m.turns = m.add("turns_total", "Messages by how waiting for their turn ended: came, full: too many waited, left: the caller did, unknown: Redis was away.", "capability", "result")
	m.waited = m.add("turn_wait_seconds", "Time that messages waited whose turn came.", "capability")
	m.cutOff = m.add("cut_off_total", "Callers that did not get all events: reader_slow: they were too far behind, stream_lost: the engine's stream broke.", "capability", "reason")
	return m
}

// Collect implements prometheus.Collector.
func (m *engineMetrics) Collect(ch chan<- prometheus.Metric) {
	to := told(ch)
	for _, c := range m.from.capabilities() {
		e := c.engine.Load()
		if e == nil {
			continue
		}
		to.gauge(m.waiting, float64(e.waiting.Load()), c.name)
		to.gauge(m.running, float64(e.running.Load()), c.name)
		to.gauge(m.agents, float64(e.agents.Load()), c.name)
		for how := range call.NumTurned {
			to.count(m.turns, e.turns[how].Load(), c.name, how.String())
		}
		for why := range call.NumCutOff {
			to.count(m.cutOff, e.cutOff[why].Load(), c.name, why.String())
		}
		var waited latency
		waited.add(&e.waited)
		to <- waited.metric(m.waited, m.from.since, c.name)
	}
}

// tellTurns tells of a tenant's messages to engines, if there were any.
func (t *TenantMetrics) tellTurns(to told, desc *prometheus.Desc) {
	for how := range call.NumTurned {
		if n := t.turns[how].Load(); n > 0 {
			to.count(desc, n, t.label, how.String())
		}
	}
}
