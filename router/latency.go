package router

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// latencyWindow is the time in which the weight of an old latency decays to 1/e.
	latencyWindow = 2 * time.Second
	// riseWeight is the weight of a single higher latency, which may be noise.
	riseWeight = 0.25
	// grain is added to every latency: smaller differences are network noise, and must not decide the
	// choice of a backend.
	grain = float64(time.Millisecond)
)

// latency is a backend's moving average. It rises fast with higher latencies, and falls slowly with
// lower ones. Without calls it approaches the latencies of the other backends, so that a slow backend
// is tried again soon. It is one word, so that readers need no lock: a float32 of nanoseconds above a
// time in units of 2^20 ns, which wraps after 52 days.
type latency struct{ word atomic.Uint64 }

func (l *latency) load(now time.Duration) (nanos float64, age uint32, word uint64) {
	word = l.word.Load()
	return float64(math.Float32frombits(uint32(word >> 32))), units(now) - uint32(word), word
}

func units(t time.Duration) uint32 { return uint32(t >> 20) }

// at returns the latency as of now in nanoseconds; 0 when unknown.
func (l *latency) at(now time.Duration) float64 {
	nanos, age, _ := l.load(now)
	return nanos * fade(age)
}

// both returns two latencies as of the later observation, in nanoseconds, or zeros when either is
// unknown. Calls can thus compare them without reading a clock: the older one approaches the later
// one, which represents the fleet.
func (l *latency) both(other *latency) (mine, its float64) {
	a, b := l.word.Load(), other.word.Load()
	if a == 0 || b == 0 {
		return 0, 0
	}
	mine = float64(math.Float32frombits(uint32(a >> 32)))
	its = float64(math.Float32frombits(uint32(b >> 32)))
	// Of the two ages one is 0 or below, for which fade is 1.
	apart := mine - its
	if later := uint32(b) - uint32(a); int32(later) > 0 {
		return its + apart*fade(later), its
	}
	return mine, mine - apart*fade(uint32(a)-uint32(b))
}

// observe takes the latency of one call. Of two concurrent observations one may be lost.
func (l *latency) observe(now, took time.Duration) {
	nanos, age, word := l.load(now)
	if int32(age) < 0 {
		age = 0 // another goroutine's clock was read later
	}
	weight := fade(age)
	if float64(took) > nanos {
		weight = min(weight, 1-riseWeight)
	} else if age == 0 && word != 0 {
		return
	}
	next := nanos*weight + float64(took)*(1-weight)
	if word == 0 {
		next = float64(took)
	}
	l.word.CompareAndSwap(word, uint64(math.Float32bits(float32(next)))<<32|uint64(units(now)))
}

// peak takes the latency of a failed call. It may only raise the average, as a fast failure is no
// merit.
func (l *latency) peak(now, took time.Duration) {
	if float64(took) > l.at(now) {
		l.observe(now, took)
	}
}

// fade approximates exp(-age) at a lower cost.
func fade(age uint32) float64 {
	if int32(age) <= 0 {
		return 1
	}
	x := float64(age) * (float64(1<<20) / float64(latencyWindow) / 4)
	y := 1 / (1 + x + x*x/2 + x*x*x/6)
	return y * y * y * y
}
