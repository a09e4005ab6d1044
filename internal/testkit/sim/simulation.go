package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
)

// Simulation is one run. The methods for the driver, which is the test's goroutine, are Chaos, Settle and Close.
type Simulation struct {
	Seed uint64
	// Faults returns the possible faults; may be nil.
	Faults func() []Event
	// Check returns a broken invariant, or nil. It runs after each step.
	Check func() error

	rnd      *rand.Rand
	began    time.Time
	faults   float64 // share of the steps that are faults
	lag      float64 // share of the steps in which time passes although events are waiting
	arrived  chan struct{}
	stopped  chan struct{} // closed by Stop
	actors   sync.WaitGroup
	settling bool

	mu     sync.Mutex
	events map[*Event]struct{}
	alive  int    // number of actors
	cause  string // cause of the last event; "" if time passed
	closed bool
	notes  []string
	failed error
	trace  []string
	steps  int
}

// Event is an event that occurs when the Simulation selects it.
type Event struct {
	Key   string // text in the trace
	order string // orders events with the same key that became possible in the same step
	cause string // then orders by the actor, or by the cause of the event
	born  int    // the step in which it became possible
	conn  int    // orders last: the number of the site's connection
	run   func()
	held  func() bool // reports whether the event is held back; optional
}

// Fault returns an event for Simulation.Faults.
func Fault(key string, run func()) Event { return Event{Key: "fault: " + key, run: run} }

// newSimulation returns a simulation for a seed, which also determines the number of faults and the delays.
func newSimulation(seed uint64) *Simulation {
	w := &Simulation{
		Seed: seed, rnd: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), arrived: make(chan struct{}, 1),
		stopped: make(chan struct{}),
		events:  map[*Event]struct{}{},
	}
	w.faults = pick(w.rnd, 0, 0.003, 0.01, 0.03) // an operation is some ten steps
	w.lag = pick(w.rnd, 0, 0.05, 0.1, 0.3)
	return w
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

// FaultRate changes the share of the steps that are faults, which the seed has decided.
func (w *Simulation) FaultRate(share float64) { w.faults = share }

// Rand returns a source of random numbers for one user, which depends on the seed and the name.
func (w *Simulation) Rand(name string) *rand.Rand { return rand.New(rand.NewPCG(w.Seed, sumOf(name))) }

// Jitter returns a duration below d, which depends on the seed and the time.
func (w *Simulation) Jitter(d time.Duration) time.Duration {
	return time.Duration(w.Draw(d.String()) % uint64(max(d, 1)))
}

// Draw returns a random number that depends on the seed, the time and the name.
func (w *Simulation) Draw(name string) uint64 {
	return sumOf(fmt.Sprint(w.Seed, time.Since(w.began), name))
}

func sumOf(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}

// Now returns the time since the beginning.
func (w *Simulation) Now() time.Duration { return time.Since(w.began) }

// Settling reports whether the faults have ended.
func (w *Simulation) Settling() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settling
}

// Note adds a line to the trace.
func (w *Simulation) Note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// Fail records a broken invariant. Only the first one counts.
func (w *Simulation) Fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf(format, args...)
	}
}

// add makes an event possible.
func (w *Simulation) add(e *Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	e.born = w.steps
	if e.cause == "" {
		e.cause = w.cause
	}
	w.events[e] = struct{}{}
	w.poke()
}

// Always adds an event that can occur repeatedly, unless held.
func (w *Simulation) Always(key string, held func() bool, run func()) {
	e := &Event{Key: key, held: held}
	e.run = func() {
		run()
		w.add(e)
	}
	w.add(e)
}

// Expect adds an event for a part without goroutines. It occurs once, unless held returns true; held may be nil. cancel
// removes it.
func (w *Simulation) Expect(key string, held func() bool, run func()) (cancel func()) {
	e := &Event{Key: key, held: held, run: run}
	w.add(e)
	return func() { w.remove(e) }
}

// After calls f after a time, on its own goroutine.
func (w *Simulation) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		f()
		w.poke()
	})
}

// await waits until an event occurs. It returns an error if ctx or the run ends first.
func (w *Simulation) await(ctx context.Context, e *Event) error {
	happened := make(chan struct{})
	e.run = func() { close(happened) }
	w.add(e)
	defer w.remove(e)
	select {
	case <-happened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stopped:
		return ErrReset
	}
}

// poke ends the pause of the driver, because an event may have become possible.
func (w *Simulation) poke() {
	signal.Wake(w.arrived)
}

func (w *Simulation) remove(e *Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.events, e)
}

// possible returns the events that can occur now, sorted.
func (w *Simulation) possible() []*Event {
	w.mu.Lock()
	all := make([]*Event, 0, len(w.events))
	for e := range w.events {
		all = append(all, e)
	}
	w.mu.Unlock()
	all = slices.DeleteFunc(all, func(e *Event) bool { return e.held != nil && e.held() })
	slices.SortFunc(all, func(a, b *Event) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), a.born-b.born, strings.Compare(a.order, b.order),
			strings.Compare(a.cause, b.cause), a.conn-b.conn)
	})
	return all
}

// Chaos runs a number of steps, with faults. It returns early if an invariant breaks or all actors have ended.
func (w *Simulation) Chaos(steps int) {
	for range steps {
		if !w.step() {
			return
		}
	}
}

// Settle ends the faults, and runs events as soon as possible until all actors have ended. It fails if they do not end
// in time.
func (w *Simulation) Settle(limit time.Duration) {
	w.mu.Lock()
	w.settling = true
	w.mu.Unlock()
	w.Note("the faults end")
	for until := w.Now() + limit; w.step(); {
		if w.Now() > until {
			w.Fail("%d actors still wait %v after the last fault", w.alive, limit)
		}
	}
}

// Pass runs events for a time, without faults.
func (w *Simulation) Pass(d time.Duration) {
	w.mu.Lock()
	w.settling = true
	w.mu.Unlock()
	w.Storm(d)
}

// Storm runs events for a time, with faults.
func (w *Simulation) Storm(d time.Duration) {
	w.mu.Lock()
	w.alive++ // the driver is still active
	w.mu.Unlock()
	for until := w.Now() + d; w.Now() < until && w.step(); {
	}
	w.mu.Lock()
	w.alive--
	w.mu.Unlock()
}

// step runs one event or lets time pass. It returns false at the end of the run.
func (w *Simulation) step() bool {
	synctest.Wait()
	w.flush()
	if w.Check != nil {
		if err := w.Check(); err != nil {
			w.Fail("%w", err)
		}
	}
	w.mu.Lock()
	over := w.failed != nil || w.alive == 0
	w.steps++
	w.mu.Unlock()
	if over {
		return false
	}
	if w.Faults != nil && !w.settling && w.rnd.Float64() < w.faults {
		if all := w.Faults(); len(all) > 0 {
			e := all[w.rnd.IntN(len(all))]
			w.happen(&e)
			return true
		}
	}
	all := w.possible()
	late := !w.settling && w.rnd.Float64() < w.lag
	if len(all) == 0 || late {
		w.pass(late)
		return true
	}
	e := all[w.rnd.IntN(len(all))]
	w.remove(e)
	w.happen(e)
	return true
}

// happen runs an event.
func (w *Simulation) happen(e *Event) {
	w.record(e.Key)
	w.because(e.cause)
	e.run()
}

// because sets the cause of the events that become possible next.
func (w *Simulation) because(cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause = cause
}

// reason returns the cause of the events that become possible now.
func (w *Simulation) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}

// pass advances the time until a new event becomes possible. If events are possible already, it advances by a random
// time.
func (w *Simulation) pass(late bool) {
	w.because("")
	d := time.Minute
	if late {
		d = time.Duration(w.rnd.ExpFloat64() * float64(100*time.Millisecond))
	}
	select { // earlier arrivals
	case <-w.arrived:
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.arrived:
	case <-t.C:
	}
}

// record adds a line to the trace.
func (w *Simulation) record(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf("%12s  %s", w.Now(), line))
}

// flush adds the notes of the last step to the trace.
func (w *Simulation) flush() {
	w.mu.Lock()
	notes := w.notes
	w.notes = nil
	w.mu.Unlock()
	slices.Sort(notes)
	for _, n := range notes {
		w.record("    " + n)
	}
}
