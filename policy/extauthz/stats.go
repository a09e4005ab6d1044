package extauthz

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Stats count the work of one Shield. They only grow.
type Stats struct {
	Answered    [call.Allow + 1][2]int64 // checked calls, by verdict; [1]: from the cache
	Unreachable int64                    // requests without an answer
	Malformed   int64                    // requests with a malformed answer
	// Durations counts requests by the first bucket that they fit into. The last element counts all others.
	Durations [len(Buckets) + 1]int64
	Seconds   float64 // total duration of all requests
}

// Buckets are the upper bounds of Stats.Took, in seconds: a rule takes less than 1 ms, a classifier tens
// of milliseconds, a model seconds.
var Buckets = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

type counters struct {
	verdicts               [call.Allow + 1][2]atomic.Int64
	unreachable, malformed atomic.Int64
	buckets                [len(Buckets) + 1]atomic.Int64
	nanoseconds            atomic.Int64
}

func (c *counters) countVerdict(v call.Verdict, cached bool) {
	from := 0
	if cached {
		from = 1
	}
	c.verdicts[v][from].Add(1)
}

func (c *counters) countFailure(malformed bool) {
	if malformed {
		c.malformed.Add(1)
	} else {
		c.unreachable.Add(1)
	}
}

func (c *counters) observe(d time.Duration) {
	i := 0
	for i < len(Buckets) && d.Seconds() > Buckets[i] {
		i++
	}
	c.buckets[i].Add(1)
	c.nanoseconds.Add(int64(d))
}

func (c *counters) snapshot() Stats {
	s := Stats{
		Unreachable: c.unreachable.Load(), Malformed: c.malformed.Load(),
		Seconds: time.Duration(c.nanoseconds.Load()).Seconds(),
	}
	for v := range c.verdicts {
		s.Answered[v] = [2]int64{c.verdicts[v][0].Load(), c.verdicts[v][1].Load()}
	}
	for i := range c.buckets {
		s.Durations[i] = c.buckets[i].Load()
	}
	return s
}
