package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// Decision is the policy's decision about a call. The zero value is that of a call without one.
type Decision struct {
	Made    bool // a decision was made
	Level   call.Level
	Verdict call.Verdict
	Cached  bool // the decision came from memory

	Differs   bool         // candidate rules would have decided otherwise
	Candidate call.Verdict // the decision of the candidate rules
	Approval  string       // id of the approval that was created or redeemed; "" if there was none
}

// Policy holds figures of the cache of decisions. The counters only grow.
type Policy struct {
	Misses, Failures int64
	Entries          int
	Age              time.Duration // since the rules were last known to be complete
	Lost             bool          // Redis has lost rules
	Rules            bool          // there are rules; otherwise the rest is zero
}

// WatchPolicy calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchPolicy(ask func() Policy) { m.cache.read.Store(&ask) }

// newCache returns the collector of the cache.
func newCache() *polled[Policy] {
	m := metrics{prefix: "capgate_policy_"}
	lookups := m.add("lookups_total",
		"Lookups of decisions that were not cached, or not any more, by result.", "result")
	entries := m.add("cache_entries", "Cached decisions.")
	age := m.add("staleness_seconds", "Time since the cache was last known to be consistent with Redis.")
	lost := m.add("rules_lost", "1 while Redis has lost rules, so that calls without a cached decision are rejected.")
	return &polled[Policy]{metrics: m, emit: func(t emitter, p Policy) {
		if !p.Rules {
			return
		}
		t.count(lookups, p.Misses-p.Failures, "found")
		t.count(lookups, p.Failures, "failed")
		t.gauge(entries, float64(p.Entries))
		t.gauge(age, p.Age.Seconds())
		t.flag(lost, p.Lost)
	}}
}

// decisions counts the decisions about calls.
type decisions struct {
	metrics
	made *prometheus.Desc
	row  []decisionCell // a row as in CapabilityMetrics
}

// decisionCell holds the counts of one goroutine by level, verdict, and whether the decision was cached. It
// fills whole cache lines.
type decisionCell struct {
	counts [call.NumLevels][numVerdicts][2]atomic.Int64
	_      [(64 - call.NumLevels*numVerdicts*16%64) % 64]byte
}

const numVerdicts = int(call.Allow) + 1

// newDecisions returns decisions with a row of that many cells, a power of two.
func newDecisions(cells int) *decisions {
	d := &decisions{metrics: metrics{prefix: "capgate_policy_"}, row: make([]decisionCell, cells)}
	d.made = d.add("decisions_total",
		"Decisions about tool calls, by verdict, the level that decided, and whether the decision was cached.",
		"decision", "level", "cached")
	return d
}

func (d *decisions) count(shard uint32, of Decision) {
	if !of.Made {
		return
	}
	cached := 0
	if of.Cached {
		cached = 1
	}
	d.row[int(shard)&(len(d.row)-1)].counts[of.Level][of.Verdict][cached].Add(1)
}

// Collect implements prometheus.Collector.
func (d *decisions) Collect(ch chan<- prometheus.Metric) {
	for level := range call.NumLevels {
		for verdict := range numVerdicts {
			for cached, word := range [...]string{"false", "true"} {
				var n int64
				for i := range d.row {
					n += d.row[i].counts[level][verdict][cached].Load()
				}
				if n > 0 {
					emitter(ch).count(d.made, n, call.Verdict(verdict).String(), call.Level(level).String(), word)
				}
			}
		}
	}
}
