package recent

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// cell has the calls of some shards since the last merge. So a call takes a lock that few other shards use. It fills
// whole cache lines.
type cell struct {
	mu   sync.Mutex // held for the copy of one record
	ring ring
	_    [72]byte
}

// divide makes n cells, a power of two.
func (l *Log) divide(n int) {
	l.cells, l.spares = make([]cell, n), make([]ring, n)
	for i := range n {
		l.cells[i].ring, l.spares[i] = *newRing(l.cfg.Keep), *newRing(l.cfg.Keep)
	}
}

// cellOf returns the cell of a shard.
func (l *Log) cellOf(shard uint32) *cell { return &l.cells[int(shard)&(len(l.cells)-1)] }

// merge moves the calls of all cells to the ring, in the order in which they ended, and their counts to the minute. A
// flow that keeps its share there had at least this share in its cells. l.mu must be held.
func (l *Log) merge(now time.Time) {
	minute := minuteOf(now)
	var moved []*slot
	for i := range l.cells {
		c, drained := &l.cells[i], &l.spares[i]
		c.mu.Lock()
		c.ring, *drained = *drained, c.ring
		c.mu.Unlock()
		drained.takeCounts(func(tenant string, n Counts) {
			l.own.add(minute, tenant, n)
			l.unsaid.add(minute, tenant, n)
		})
		moved = drained.drain(moved)
	}
	slices.SortFunc(moved, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.seq, b.seq))
	})
	for _, s := range moved {
		l.ring.adopt(s)
	}
	for i := range l.spares {
		l.spares[i].trim()
	}
}
