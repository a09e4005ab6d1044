package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	backends = 5
	mean     = 10 * time.Millisecond // mean work of a call; exponentially distributed
	slower   = 3                     // factor for the first backend
	load     = 0.9                   // share of the fleet's capacity
	warm     = 20_000                // calls before counting starts
	counted  = 200_000
)

// rule picks a backend for each call of one gateway.
type rule interface {
	// pick returns a backend. done must be called with the call's latency when the call ends.
	pick() (backend int, done func(latency time.Duration))
}

// simulation is the fleet and its pending events.
type simulation struct {
	workers int // concurrent calls per backend; others wait in order
	now     time.Duration
	random  *rand.Rand
	events  events
	fleet   [backends]*server
	taken   []time.Duration // of all calls, in the order in which they ended
	slow    int             // counted calls at the slow backend
}

// event is a scheduled function.
type event struct {
	at   time.Duration
	what func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *simulation) after(d time.Duration, what func()) {
	heap.Push(&s.events, event{s.now + d, what})
}

// server is a backend.
type server struct {
	mean     time.Duration
	inFlight int
	waiting  []func() // starts of calls that wait for a worker
	// recent holds the latest latencies by the number of calls in flight.
	recent map[int][]time.Duration
}

// simulate runs the calls of several gateways, each with its own rule.
func simulate(workers, gateways int, seed uint64, newRule func(*simulation) rule) *simulation {
	s := &simulation{workers: workers, random: rand.New(rand.NewPCG(seed, seed))}
	capacity := 0.0 // calls a second
	for i := range s.fleet {
		s.fleet[i] = &server{mean: mean, recent: map[int][]time.Duration{}}
		if i == 0 {
			s.fleet[i].mean *= slower
		}
		capacity += float64(workers) / s.fleet[i].mean.Seconds()
	}
	var rules []rule
	for range gateways {
		rules = append(rules, newRule(s))
	}
	between := float64(time.Second) / (capacity * load)
	var arrive func()
	arrive = func() {
		s.call(rules[s.random.IntN(gateways)])
		s.after(time.Duration(s.random.ExpFloat64()*between), arrive)
	}
	arrive()
	for len(s.taken) < warm+counted {
		next := heap.Pop(&s.events).(event)
		s.now = next.at
		next.what()
	}
	return s
}

// call runs one call.
func (s *simulation) call(r rule) {
	at, done := r.pick()
	b, began := s.fleet[at], s.now
	b.inFlight++
	met := b.inFlight
	start := func() {
		s.after(time.Duration(s.random.ExpFloat64()*float64(b.mean)), func() {
			took := s.now - began
			b.inFlight--
			b.observe(met, took)
			if len(b.waiting) > 0 {
				next := b.waiting[0]
				b.waiting = b.waiting[1:]
				next()
			}
			if len(s.taken) >= warm && at == 0 {
				s.slow++
			}
			s.taken = append(s.taken, took)
			done(took)
		})
	}
	if met > s.workers {
		b.waiting = append(b.waiting, start)
		return
	}
	start()
}

// latencies is the number of latencies that a server keeps for each number of calls in flight.
const latencies = 8

func (b *server) observe(inFlight int, took time.Duration) {
	all := append(b.recent[inFlight], took)
	b.recent[inFlight] = all[max(0, len(all)-latencies):]
}

// percentile returns a percentile of the counted calls.
func (s *simulation) percentile(p float64) time.Duration {
	all := slices.Sorted(slices.Values(s.taken[warm:]))
	return all[int(float64(len(all)-1)*p)]
}
