package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// maxReasons bounds the label values of one reasonCounter. Reasons are some dozens of constants. The bound is a
// safeguard.
const maxReasons = 64

// otherReason counts reasons beyond that bound.
const otherReason = "OTHER"

// reasonCounter counts reasons. Its map is replaced, never changed, so counting a known reason takes no lock.
type reasonCounter struct {
	counts atomic.Pointer[map[string]*atomic.Int64]
	mu     sync.Mutex // held to replace counts
}

func (c *reasonCounter) add(reason string) {
	if counts := c.counts.Load(); counts != nil {
		if n, ok := (*counts)[reason]; ok {
			n.Add(1)
			return
		}
	}
	c.counter(reason).Add(1)
}

// counter finds or adds the counter of a reason that add did not find.
func (c *reasonCounter) counter(reason string) *atomic.Int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.snapshot()
	if n, ok := known[reason]; ok {
		return n
	}
	reason = untrusted.UTF8(reason)
	if len(known) >= maxReasons-1 {
		reason = otherReason
	}
	if n, ok := known[reason]; ok {
		return n
	}
	counts := maps.Clone(known)
	if counts == nil {
		counts = make(map[string]*atomic.Int64)
	}
	n := new(atomic.Int64)
	counts[strings.Clone(reason)] = n
	c.counts.Store(&counts)
	return n
}

// snapshot returns the counters by reason; the map must not be changed.
func (c *reasonCounter) snapshot() map[string]*atomic.Int64 {
	if counts := c.counts.Load(); counts != nil {
		return *counts
	}
	return nil
}
