package observe

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
func (m *Metrics) WatchPolicy(ask func() Policy) { m.policy.ask.Store(&ask) }

// policyCollector counts decisions, and reports the cache.
type policyCollector struct {
	ask  atomic.Pointer[func() Policy]
	made []decisionCell // a row as CapabilityMetrics has them

	decisions, lookups, entries, age, lost *prometheus.Desc
}

// decisionCell holds what one goroutine counted: by level, verdict, and whether memory
// knew. It fills whole cache lines.
type decisionCell struct {
	counts [call.NumLevels][numVerdicts][2]atomic.Int64
	_      [(64 - call.NumLevels*numVerdicts*16%64) % 64]byte
}

const numVerdicts = int(call.Allow) + 1

// newPolicyCollector makes one with a row of that many cells, a power of two.
func newPolicyCollector(cells int) *policyCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("capgate_policy_"+name, help, labels, nil)
	}
	return &policyCollector{
		made: make([]decisionCell, cells),
		decisions: desc("decisions_total", "Decisions on calls of tools, by what became of them, the level that decided, and whether memory knew.",
			"decision", "level", "cached"),
		lookups: desc("lookups_total", "Questions for a decision that was not in memory, or not any more: asked of Redis, or failed.", "result"),
		entries: desc("cache_entries", "Decisions in memory."),
		age:     desc("staleness_seconds", "Time since the rules in memory were last known to be what Redis has."),
		lost:    desc("rules_lost", "1 while Redis has fewer rules than it had: unknown decisions are refused."),
	}
}

func (c *policyCollector) count(shard uint32, d Decision) {
	if !d.Made {
		return
	}
	cached := 0
	if d.Cached {
		cached = 1
	}
	c.made[int(shard)&(len(c.made)-1)].counts[d.Level][d.Verdict][cached].Add(1)
}

// Describe implements prometheus.Collector.
func (c *policyCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.decisions, c.lookups, c.entries, c.age, c.lost} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *policyCollector) Collect(ch chan<- prometheus.Metric) {
	for level := range call.NumLevels {
		for verdict := range numVerdicts {
			for cached, word := range [...]string{"false", "true"} {
				c.collectDecisions(ch, call.Level(level), call.Verdict(verdict), cached, word)
			}
		}
	}
	ask := c.ask.Load()
	if ask == nil {
		return
	}
	p := (*ask)()
	if !p.Rules {
		return
	}
	ch <- prometheus.MustNewConstMetric(c.lookups, prometheus.CounterValue, float64(p.Misses-p.Failures), "found")
	ch <- prometheus.MustNewConstMetric(c.lookups, prometheus.CounterValue, float64(p.Failures), "failed")
	ch <- prometheus.MustNewConstMetric(c.entries, prometheus.GaugeValue, float64(p.Entries))
	ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, p.Age.Seconds())
	lost := 0.0
	if p.Lost {
		lost = 1
	}
	ch <- prometheus.MustNewConstMetric(c.lost, prometheus.GaugeValue, lost)
}

func (c *policyCollector) collectDecisions(ch chan<- prometheus.Metric, level call.Level, verdict call.Verdict, cached int, word string) {
	var n int64
	for i := range c.made {
		n += c.made[i].counts[level][verdict][cached].Load()
	}
	if n > 0 {
		ch <- prometheus.MustNewConstMetric(c.decisions, prometheus.CounterValue, float64(n), verdict.String(), level.String(), word)
	}
}
