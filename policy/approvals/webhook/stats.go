package webhook

import "sync/atomic"

// Stats count the work of this replica. The counters only grow.
type Stats struct {
	Delivered int64 // events
	Failed    int64 // requests
	Retried   int64 // requests after an event's first
	Dead      int64 // events that became dead letters
	Skipped   int64 // requests for approval that were not delivered, as they can no longer be answered
	Dropped   int64 // events that found the outbox full, and evicted dead letters
	Sizes           // of all replicas, as last seen
}

type counters struct {
	delivered, failed, retried, dead, late, dropped, queued, letters atomic.Int64
}

// Stats returns the current counters.
func (d *Deliverer) Stats() Stats {
	c := &d.counters
	return Stats{
		Delivered: c.delivered.Load(), Failed: c.failed.Load(), Retried: c.retried.Load(), Dead: c.dead.Load(),
		Skipped: c.late.Load(),
		Dropped: c.dropped.Load(), Sizes: Sizes{Queued: int(c.queued.Load()), Dead: int(c.letters.Load())},
	}
}
