package status

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Cache holds the marshalled statuses of failures, and of refusals that many calls share. It is safe for concurrent
// use and takes no lock.
//
// The slot of a refusal is a hash of its address. A refusal for a single call is replaced by the next one; a shared
// refusal returns to its slot with the next call that it rejects. The cache keeps at most len(slots) refusals alive.
type Cache struct {
	seed     maphash.Seed
	slots    [256]atomic.Pointer[cached]
	failures [len(failures)][call.Sent + 1]relay.Status
}

type cached struct {
	refusal  *call.Refusal
	progress call.Progress
	status   relay.Status
}

// NewCache returns a Cache with the statuses of all failures.
func NewCache() *Cache {
	c := &Cache{seed: maphash.MakeSeed()}
	for f := range c.failures {
		for p := range c.failures[f] {
			c.failures[f][p] = Failure(relay.Failure(f), call.Progress(p))
		}
	}
	return c
}

// Refusal returns the status of a refusal, which must not change afterwards.
func (c *Cache) Refusal(r *call.Refusal, p call.Progress) relay.Status {
	slot := &c.slots[maphash.Comparable(c.seed, r)%uint64(len(c.slots))]
	if known := slot.Load(); known != nil && known.refusal == r && known.progress == p {
		return known.status
	}
	known := &cached{refusal: r, progress: p, status: Relayed(r, p)}
	slot.Store(known)
	return known.status
}

// Failure returns the status of a failure of the relay.
func (c *Cache) Failure(f relay.Failure, p call.Progress) relay.Status {
	if int(f) >= len(c.failures) {
		f = relay.NoFailure
	}
	return c.failures[f][min(p, call.Sent)]
}
