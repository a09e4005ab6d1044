package overload

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// memory measures the live heap, as of the last garbage collection.
type memory struct {
	limit   int64
	samples []metrics.Sample
	next    time.Time // earliest time of the next collection
}

// gcPause is the factor of a collection's duration for which no other one is forced.
const gcPause = 10

// The samples.
const (
	stacks    = iota
	liveBytes // bytes of the heap, at the last collection
	heapBytes // bytes of the heap, including garbage
)

func newMemory(limit int64) *memory {
	return &memory{limit: limit, samples: []metrics.Sample{
		stacks: {Name: "/memory/classes/heap/stacks:bytes"}, liveBytes: {Name: "/gc/heap/live:bytes"},
		heapBytes: {Name: "/memory/classes/heap/objects:bytes"},
	}}
}

// measure returns the live bytes. Calls that hold much fill the memory between two collections, so it forces a
// collection if the heap may be too large. Without need, and unless asked, it returns 0.
func (m *memory) measure(asked bool) int64 {
	metrics.Read(m.samples)
	if began := time.Now(); m.bytes(heapBytes) >= m.limit && began.After(m.next) {
		runtime.GC()
		m.next = time.Now().Add(gcPause * time.Since(began))
		metrics.Read(m.samples)
		asked = true
	}
	if !asked {
		return 0
	}
	return m.bytes(liveBytes)
}

func (m *memory) bytes(of int) int64 {
	return int64(m.samples[stacks].Value.Uint64() + m.samples[of].Value.Uint64())
}
