package affinity

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router/affinity"
)

// Resolver finds the backends of sessions and artifacts, as *affinity.Resolver does.
type Resolver interface {
	// Lookup answers from memory, and must not block.
	Lookup(*affinity.Query) (a affinity.Answer, known bool)
	// Resolve asks the store, and calls done from another goroutine.
	Resolve(q affinity.Query, done func(affinity.Answer))
}

// State is what is remembered of a lookup.
type State struct {
	answered bool // by the store: Call.Pin is the answer
}

// Filter finds the backend that a call has to go to, if there is one: that of its session, or of an artifact that it
// names. It does so at once where memory has the answer, as it has in the steady state.
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
	if session == "" && c.Artifacts.IDs == nil || c.Attempt.Directed != nil {
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

// Done implements filter.Filter. A pin holds from the first call that was forwarded.
func (Filter) Done(c *filter.Call, _ *State, r *filter.Result) {
	if r.Final && r.Forwarded > 0 {
		c.Pin.Pinned.MarkUsed()
	}
}
