package ready

import (
	"sync"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
)

// State is the state of a call: a single byte, because every call has one. The other state of waiting calls is in the
// Filter.
type State struct{ phase phase }

type phase uint8

const (
	fresh phase = iota
	waits
	waited // a call waits only once
)

// Filter makes calls wait until their fleet is ready.
type Filter struct {
	expedite func(capability string) // requests early probes; must not block
	memory   *fairshare.Pool         // for waiting calls

	mu      sync.Mutex
	waiting map[*filter.Call]waiting
}

// waiting is the state of a waiting call.
type waiting struct {
	wait *router.ReadyWait
	held *filter.Hold
}

// New returns a Filter. If expedite is nil, no call waits.
func New(expedite func(capability string), memory *fairshare.Pool) *Filter {
	return &Filter{expedite: expedite, memory: memory, waiting: map[*filter.Call]waiting{}}
}

// Admit implements filter.Filter. A call whose owner has no memory for further waiting calls continues at once.
func (f *Filter) Admit(c *filter.Call, s *State) filter.Step {
	if s.phase == waits {
		f.end(c, s)
		c.Fleet = c.Fleet.Current()
		return filter.Continue
	}
	if c.Fleet.Ready(c.Info.Tenant, c.Info.Session) || s.phase == waited || f.expedite == nil ||
		c.Route.Directed != nil {
		return filter.Continue
	}
	return f.await(c, s)
}

// await makes a call wait, if it may.
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

// Expedite requests early probes of a fleet that is not ready.
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
