package webhook

import "sync/atomic"

// Stats count what this replica did. The counters only grow.
type Stats struct {
	Delivered int64 // events
	Failed    int64 // requests
	Retried   int64 // requests that were not an event's first
	Dead      int64 // events that became dead letters
	Late      int64 // questions that were not told at all, as nobody can answer them any more
	Dropped   int64 // events that found the outbox full, and dead letters that were one too many
	Sizes           // of all replicas, as this one saw them last
}

type counters struct {
	delivered, failed, retried, dead, late, dropped, queued, letters atomic.Int64
}

// Stats may be asked at any time.
func (d *Deliverer) Stats() Stats {
	c := &d.counted
	return Stats{
		Delivered: c.delivered.Load(), Failed: c.failed.Load(), Retried: c.retried.Load(), Dead: c.dead.Load(), Late: c.late.Load(),
		Dropped: c.dropped.Load(), Sizes: Sizes{Queued: int(c.queued.Load()), Dead: int(c.letters.Load())},
	}
}
