package policy

import (
	"sync/atomic"
	"time"
)

// Stats count what the cache did not know. The counters only grow.
type Stats struct {
	Misses, Failures int64         // questions to the store, and those of who asked that it did not answer
	Entries          int           // in the cache now
	Age              time.Duration // since the store last confirmed that nothing is missing
	Lost             bool          // the store has lost rules; see Follow
}

type stats struct{ misses, failures atomic.Int64 }

// Stats may be asked at any time.
func (d *Decider) Stats() Stats {
	return Stats{
		d.counted.misses.Load(), d.counted.failures.Load(), d.cache.len(),
		time.Duration(d.now() - d.heard.Load()), d.lost.Load(),
	}
}
