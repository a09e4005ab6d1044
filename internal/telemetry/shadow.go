package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
)

// differences holds the counts of one goroutine by the decision and that of the candidate rules. It fills whole
// cache lines.
type differences struct {
	counts [numVerdicts][numVerdicts]atomic.Int64
	_      [56]byte
}

// differ counts a call with another decision by the candidate rules.
func (c *CapabilityMetrics) differ(rec *Record) {
	row := c.shadow.Load()
	if row == nil {
		fresh := make([]differences, len(c.inFlight))
		c.shadow.CompareAndSwap(nil, &fresh)
		row = c.shadow.Load()
	}
	(*row)[int(rec.Shard)&(len(*row)-1)].counts[rec.Decision.Verdict][rec.Decision.Candidate].Add(1)
}

func (c *CapabilityMetrics) emitDifferences(to emitter, desc *prometheus.Desc) {
	row := c.shadow.Load()
	if row == nil {
		return
	}
	for decision := range numVerdicts {
		for candidate := range numVerdicts {
			var n int64
			for i := range *row {
				n += (*row)[i].counts[decision][candidate].Load()
			}
			if n > 0 {
				to.count(desc, n, c.name, call.Verdict(decision).String(), call.Verdict(candidate).String())
			}
		}
	}
}
