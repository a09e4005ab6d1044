package ready

import (
	"sync"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
)

// State is what is remembered of a call. It is one byte, as every call has one; what a call that waits has besides is
// in the Filter.
type State struct{ phase phase }

type phase uint8

const (
	fresh phase = iota
	waits
	waited // a call waits once
)

// Filter lets a call wait until its fleet is ready.
type Filter struct {
	expedite func(capability string) // asks for early probes; must not block
	memory   *fairshare.Pool         // of calls that wait

	mu      sync.Mutex
	waiting map[*filter.Call]waiting
}

// waiting is what a call that waits has.
type waiting struct {
	wait *router.ReadyWait
	held *filter.Hold
}

// New returns a Filter. Without expedite no call waits.
func New(expedite func(capability string), memory *fairshare.Pool) *Filter {
	return &Filter{expedite: expedite, memory: memory, waiting: map[*filter.Call]waiting{}}
}

// Admit implements filter.Filter. A call whose owner has no more memory for waiting calls goes on at once.
func (f *Filter) Admit(c *filter.Call, s *State) filter.Step {
	if s.phase == waits {
		f.end(c, s)
		c.Fleet = c.Fleet.Current()
		return filter.Continue
	}
	if c.Fleet.Ready(c.Info.Tenant, c.Info.Session) || s.phase == waited || f.expedite == nil ||
		c.Attempt.Directed != nil {
		return filter.Continue
	}
	return f.await(c, s)
}

// await lets a call wait, if it may.
func (f *Filter) await(c *filter.Call, s *State) filter.Step {
	held := filter.NewHold(c, f.memory, 0)
	if held == nil {
		return filter.Continue
	}
	f.Expedite(c.Fleet)
	wait := c.Fleet.AwaitReady(c.Info.Tenant, c.Info.Session, func() func() {
		p := c.Park(tracing.ForBackend)
		return func() { p.Resume(func() {}) }
	})
	if wait == nil { // the fleet is ready by now
		held.Release()
		c.Fleet = c.Fleet.Current()
		return filter.Continue
	}
	s.phase = waits
	f.mu.Lock()
	f.waiting[c] = waiting{wait, held}
	f.mu.Unlock()
	return filter.Wait
}

// Expedite asks for early probes of a fleet that is not ready.
func (f *Filter) Expedite(fleet *router.Fleet) {
	if f.expedite != nil && fleet.Expedite() {
		f.expedite(fleet.Capability)
	}
}

// end ends a call's wait.
func (f *Filter) end(c *filter.Call, s *State) {
	f.mu.Lock()
	w := f.waiting[c]
	delete(f.waiting, c)
	f.mu.Unlock()
	s.phase = waited
	w.wait.Cancel()
	w.held.Release()
}

// Done implements filter.Filter.
func (f *Filter) Done(c *filter.Call, s *State, _ *filter.Result) {
	if s.phase == waits {
		f.end(c, s)
	}
}
