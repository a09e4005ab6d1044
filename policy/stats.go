package policy

import (
	"sync/atomic"
	"time"
)

// Stats count the cache misses. The counters only grow.
type Stats struct {
	Misses, Failures int64         // queries to the store, and the calls that got no answer
	Entries          int           // in the cache now
	Age              time.Duration // since the last sync with the store
	Lost             bool          // the store has lost rules; see Watch
	Read             bool          // the store was read since the start
}

type stats struct{ misses, failures atomic.Int64 }

// Stats returns the current counters.
func (d *Decider) Stats() Stats {
	return Stats{
		d.counters.misses.Load(), d.counters.failures.Load(), d.cache.len(),
		d.freshness.Age(), d.freshness.Lost(), d.HasRead(),
	}
}

// HasRead reports whether the store was read since the start.
func (d *Decider) HasRead() bool { return d.freshness.LastSync() > 0 }
