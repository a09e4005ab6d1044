package overload

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// memory looks at what lives, which only the collector knows.
type memory struct {
	limit   int64
	samples []metrics.Sample
	next    time.Time // when it may collect again
}

// pause is how many times as long as a collection took none is begun here.
const pause = 10

// The samples.
const (
	stacks  = iota
	living  // bytes of the heap, at the last collection
	present // bytes of the heap, with those that nobody needs any more
)

func newMemory(limit int64) *memory {
	return &memory{limit: limit, samples: []metrics.Sample{
		stacks: {Name: "/memory/classes/heap/stacks:bytes"}, living: {Name: "/gc/heap/live:bytes"}, present: {Name: "/memory/classes/heap/objects:bytes"},
	}}
}

// look is how many bytes live. Calls that hold much fill the memory between two collections,
// so it collects where what is there may be too much. If it need not and nobody asks it is 0.
func (m *memory) look(asked bool) int64 {
	metrics.Read(m.samples)
	if began := time.Now(); m.bytes(present) >= m.limit && began.After(m.next) {
		runtime.GC()
		m.next = time.Now().Add(pause * time.Since(began))
		metrics.Read(m.samples)
		asked = true
	}
	if !asked {
		return 0
	}
	return m.bytes(living)
}

func (m *memory) bytes(of int) int64 {
	return int64(m.samples[stacks].Value.Uint64() + m.samples[of].Value.Uint64())
}
