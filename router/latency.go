package router

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// memory is the time in which what an observed latency differs by fades to 1/e of what it was.
	memory = 2 * time.Second
	// rise is how much of a worse latency counts at once. One slow call of many is noise.
	rise = 0.25
	// grain is added to every latency: differences far below it are noise of the
	// network and must not decide where calls go.
	grain = float64(time.Millisecond)
)

// latency is a backend's moving average: it rises fast with worse latencies and comes down slowly
// with better ones. Where no call goes it approaches those of the backends that are called, so that a
// backend that was slow is asked again soon. It is one word, so that readers need no lock: a float32 of
// nanoseconds above a time in units of 2^20 ns, which wraps after 52 days.
type latency struct{ word atomic.Uint64 }

func (l *latency) load(now time.Duration) (nanos float64, age uint32, word uint64) {
	word = l.word.Load()
	return float64(math.Float32frombits(uint32(word >> 32))), units(now) - uint32(word), word
}

func units(t time.Duration) uint32 { return uint32(t >> 20) }

// at is the latency as of now in nanoseconds; 0 when none is known.
func (l *latency) at(now time.Duration) float64 {
	nanos, age, _ := l.load(now)
	return nanos * fade(age)
}

// both are two latencies as of when the later of them was observed, in nanoseconds; 0
// and 0 when either is not known. This way calls can compare without reading a clock:
// the older one approaches the later one, which stands for the fleet.
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

// observe takes the latency of one call. Of two at the same moment one may be lost.
func (l *latency) observe(now, took time.Duration) {
	nanos, age, word := l.load(now)
	if int32(age) < 0 {
		age = 0 // another goroutine's clock was read later
	}
	weight := fade(age)
	if float64(took) > nanos {
		weight = min(weight, 1-rise)
	} else if age == 0 && word != 0 {
		return
	}
	next := nanos*weight + float64(took)*(1-weight)
	if word == 0 {
		next = float64(took)
	}
	l.word.CompareAndSwap(word, uint64(math.Float32bits(float32(next)))<<32|uint64(units(now)))
}

// peak takes the latency of a call that failed: it may only make things worse, as
// failing fast is no merit.
func (l *latency) peak(now, took time.Duration) {
	if float64(took) > l.at(now) {
		l.observe(now, took)
	}
}

// fade falls from 1 with age as exp does, as far as it matters here, for less.
func fade(age uint32) float64 {
	if int32(age) <= 0 {
		return 1
	}
	x := float64(age) * (float64(1<<20) / float64(memory) / 4)
	y := 1 / (1 + x + x*x/2 + x*x*x/6)
	return y * y * y * y
}
