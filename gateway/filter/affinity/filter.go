package affinity

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router/affinity"
)

// Resolver looks up the backends of sessions and artifacts. *affinity.Resolver implements it.
type Resolver interface {
	// Lookup looks in memory. It must not block.
	Lookup(*affinity.Query) (a affinity.Answer, known bool)
	// Resolve looks in the store, and calls done from another goroutine.
	Resolve(q affinity.Query, done func(affinity.Answer))
}

// State is the state of a lookup.
type State struct {
	answered bool // the store has set Call.Pin
}

// Filter looks up the backend that a call must use: that of its session, or of an artifact that it names. In the
// steady state the lookup is from memory.
type Filter struct{ resolver Resolver }

// New returns a Filter.
func New(r Resolver) Filter { return Filter{r} }

// Admit implements filter.Filter.
func (f Filter) Admit(c *filter.Call, s *State) filter.Step {
	if s.answered {
		s.answered = false
		return c.ContinueUnless(c.Pin.Refusal)
	}
	session := sessionOf(c)
	if session == "" && c.Artifacts.IDs == nil || c.Route.Directed != nil {
		return filter.Continue
	}
	q := affinity.Query{
		Fleet: c.Fleet, Tenant: c.Info.Tenant, UID: c.Principal.UID(), Session: session,
		Artifacts: c.Artifacts.IDs, OwnedOnly: c.Principal.Bound(), Tried: c.Endpoint,
	}
	if a, known := f.resolver.Lookup(&q); known {
		c.Pin = a
		return c.ContinueUnless(a.Refusal)
	}
	p := c.Park(tracing.ForSession)
	f.resolver.Resolve(q.Clone(), func(a affinity.Answer) {
		p.Resume(func() { c.Pin, s.answered = a, true })
	})
	return filter.Wait
}

// sessionOf returns the session that binds a call to a backend; empty means none.
func sessionOf(c *filter.Call) string {
	switch {
	case !c.Fleet.HasSessions():
		return ""
	case c.Info.Session == "" && c.Fleet.Protocol().Traits().OwnSessions:
		return c.OwnSession()
	}
	return c.Info.Session
}

// Done implements filter.Filter. The first forwarded call makes a pin permanent.
func (Filter) Done(c *filter.Call, _ *State, r *filter.Result) {
	if r.Final && r.Forwarded > 0 {
		c.Pin.Pinned.MarkUsed()
	}
}
