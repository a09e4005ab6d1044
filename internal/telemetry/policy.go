package telemetry

import (
	"sync/atomic"

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
