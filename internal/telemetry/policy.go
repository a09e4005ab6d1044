package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// Decision is what policy said of a call. The zero value is that it was not asked.
type Decision struct {
	Made    bool // it was asked
	Level   call.Level
	Verdict call.Verdict
	Cached  bool // and answered from memory

	Differs   bool         // candidate rules would have said something else
	Candidate call.Verdict // what
	Approval  string       // id of a person's consent, which was asked for or made use of; "" where there was none
}

// Policy is what is to be told of the cache of decisions when somebody scrapes. The
// counters only grow.
type Policy struct {
	Misses, Failures int64
	Entries          int
	Age              time.Duration // since the rules were last known to be complete
	Lost             bool          // Redis has lost rules
	Rules            bool          // there are rules at all; without, the rest is zero
}

// WatchPolicy lets every scrape report what ask answers. It may be called from any
// goroutine.
func (m *Metrics) WatchPolicy(ask func() Policy) { m.cache.read.Store(&ask) }

// newCache tells of the cache.
func newCache() *polled[Policy] {
	m := metrics{prefix: "capgate_policy_"}
	lookups := m.add("lookups_total",
		"Questions for a decision that was not in memory, or not any more: asked of Redis, or failed.", "result")
	entries := m.add("cache_entries", "Decisions in memory.")
	age := m.add("staleness_seconds", "Time since the rules in memory were last known to be what Redis has.")
	lost := m.add("rules_lost", "1 while Redis has fewer rules than it had: unknown decisions are refused.")
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

// decisions counts those on calls.
type decisions struct {
	metrics
	made *prometheus.Desc
	row  []decisionCell // as CapabilityMetrics has them
}

// decisionCell holds what one goroutine counted: by level, verdict, and whether memory
// knew. It fills whole cache lines.
type decisionCell struct {
	counts [call.NumLevels][numVerdicts][2]atomic.Int64
	_      [(64 - call.NumLevels*numVerdicts*16%64) % 64]byte
}

const numVerdicts = int(call.Allow) + 1

// newDecisions makes one with a row of that many cells, a power of two.
func newDecisions(cells int) *decisions {
	d := &decisions{metrics: metrics{prefix: "capgate_policy_"}, row: make([]decisionCell, cells)}
	d.made = d.add("decisions_total",
		"Decisions on calls of tools, by what became of them, the level that decided, and whether memory knew.",
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
