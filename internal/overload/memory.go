package overload

import (
	"runtime"
	"runtime/metrics"
)

// memory looks at what lives. What the collector has not seen yet is not known to live, so
// it lags by one collection.
type memory struct {
	limit   int64
	cycles  uint64
	samples []metrics.Sample
}

func newMemory(limit int64) *memory {
	m := &memory{limit: limit}
	for _, name := range []string{"/gc/cycles/total:gc-cycles", "/gc/heap/live:bytes", "/memory/classes/heap/stacks:bytes"} {
		m.samples = append(m.samples, metrics.Sample{Name: name})
	}
	return m
}

// live is how many bytes live. When they are near the limit and nobody has collected since
// the last look, it collects: what is known must not stay wrong because nothing happens.
func (m *memory) live() int64 {
	if n := m.read(); n < m.limit || m.cycles != m.samples[0].Value.Uint64() {
		m.cycles = m.samples[0].Value.Uint64()
		return n
	}
	runtime.GC()
	n := m.read()
	m.cycles = m.samples[0].Value.Uint64()
	return n
}

func (m *memory) read() int64 {
	metrics.Read(m.samples)
	return int64(m.samples[1].Value.Uint64() + m.samples[2].Value.Uint64())
}
