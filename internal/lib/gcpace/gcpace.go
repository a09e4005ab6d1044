package gcpace

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	tick   = 100 * time.Millisecond
	often  = 3   // ticks between two frequent collections, at most
	burst  = 2   // frequent collections that a short burst of work may cause, such as new connections
	rare   = 20  // ticks without a collection after which they are no longer frequent
	normal = 100 // GOGC of the Go runtime
	part   = 8   // a change of GOGC below this part of it is not worth a stop of the world

	// leastHeap is the number of bytes to which the Go runtime lets each heap grow with the normal GOGC. It is
	// proportional to GOGC.
	leastHeap = 4 << 20
)

// Pacer sets GOGC. Only one Pacer of a process may run.
type Pacer struct {
	size    int64 // to which the heap may grow before a collection, in bytes
	percent int   // GOGC
	cycles  uint64
	quiet   int // ticks since the last collection
	row     int // frequent collections since one that was not
}

// New returns a Pacer that lets the heap of a busy process grow to size bytes. A live heap of more than half of it is
// collected as without a Pacer.
func New(size int64) *Pacer { return &Pacer{size: size, percent: normal, quiet: rare} }

// The samples.
const (
	gogc = iota
	cycles
	liveHeap
	stacks
	globals
)

// Run sets GOGC until ctx ends, and then restores it. If the operator has set GOGC, Run leaves it alone.
func (p *Pacer) Run(ctx context.Context) {
	samples := []metrics.Sample{gogc: {Name: "/gc/gogc:percent"}, cycles: {Name: "/gc/cycles/total:gc-cycles"},
		liveHeap: {Name: "/gc/heap/live:bytes"}, stacks: {Name: "/gc/scan/stack:bytes"},
		globals: {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	if samples[gogc].Value.Uint64() != normal {
		return
	}
	defer debug.SetGCPercent(normal)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(samples)
		if before := p.percent; p.next(samples[cycles].Value.Uint64(), int64(samples[liveHeap].Value.Uint64()),
			int64(samples[stacks].Value.Uint64()+samples[globals].Value.Uint64())) != before {
			debug.SetGCPercent(p.percent)
		}
	}
}

// next returns GOGC after a tick. cycles is the number of collections so far. live is the size of the heap after the
// last one, and roots that of the stacks and globals, in bytes, for which GOGC allows garbage as well.
func (p *Pacer) next(cycles uint64, live, roots int64) int {
	collected := cycles != p.cycles
	p.cycles = cycles
	p.quiet++
	if collected && p.quiet <= often {
		p.row++
	} else if collected {
		p.row = 0
	}
	switch {
	case p.quiet > rare:
		p.percent = normal
	case collected && (p.percent > normal || p.row >= burst):
		want := max(int(min((p.size-live)*100/max(live+roots, 1), p.size*100/leastHeap)), normal)
		if change := want - p.percent; want == normal || max(change, -change) > p.percent/part {
			p.percent = want
		}
	}
	if collected {
		p.quiet = 0
	}
	return p.percent
}
