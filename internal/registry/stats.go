package registry

import (
	"sync/atomic"
	"time"
)

type counts struct {
	lookupsFailed, readsFailed, writesFailed, ignored atomic.Int64
}

// Stats holds the metrics of a Registry.
type Stats struct {
	DNS, Registered int           // members by source
	LookupsFailed   int64         // looks at a name without a full answer, so far
	StoreFailed     int64         // readings and writes that the store did not answer, so far
	Ignored         int           // values in the store that make no sense or are not permitted, now
	Stale           time.Duration // since the store answered last; 0 while it does
}

// Stats returns the figures of now.
func (r *Registry) Stats() Stats {
	s := Stats{
		LookupsFailed: r.counts.lookupsFailed.Load(), StoreFailed: r.counts.readsFailed.Load() +
			r.counts.writesFailed.Load(), Ignored: int(r.counts.ignored.Load()),
	}
	for _, m := range r.Members() {
		if m.Source == DNS {
			s.DNS++
		} else {
			s.Registered++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent {
		s.Stale = time.Since(r.lastRead)
	}
	return s
}
