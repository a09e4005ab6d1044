package protocol

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// State is the state of a call that its backend's dialect cannot express.
type State struct {
	moved bool // the call was directed to another backend
}

// Filter determines how a call is converted for its backend. A call that the backend's dialect cannot express is sent
// to another backend of the fleet, if there is one and the call is not bound to the first. A translated call is not
// translated again if that could lose information.
type Filter struct{}

// Admit implements filter.Filter.
func (Filter) Admit(c *filter.Call, s *State) filter.Step {
	if c.Attempt.Mode = modeFor(c, c.Endpoint.Dialect()); c.Attempt.Mode != dialect.Impossible {
		return filter.Continue
	}
	if c.Pin.Backend == nil && !s.moved {
		possible := func(d call.Dialect) bool { return modeFor(c, d) != dialect.Impossible }
		c.Route.Directed = c.Fleet.MatchDialect(possible, c.Route.Tried)
	}
	switch {
	case c.Route.Directed != nil:
		s.moved = true
		return filter.Again
	case c.Attempt.Translated: // the first translation was possible
		return c.Reject(filter.Unreachable(c.Fleet))
	}
	return c.Reject(untranslatable(c.Info.Method, c.Endpoint.Dialect()))
}

// Done implements filter.Filter.
func (Filter) Done(_ *filter.Call, s *State, r *filter.Result) {
	if r.Unsent != nil {
		s.moved = false // a further attempt may be directed again
	}
}

// modeFor returns the conversion of a call for a backend with the dialect d.
func modeFor(c *filter.Call, d call.Dialect) dialect.Mode {
	mode := dialect.Translate(c.Spoken.Method, c.Spoken.Dialect, d)
	if mode == dialect.Convert && c.Attempt.Translated && c.Spoken.Method != call.UploadInputArtifact {
		return dialect.Impossible
	}
	return mode
}

// untranslatable returns the refusal of a call that the backend's dialect cannot express.
func untranslatable(m call.Method, d call.Dialect) *call.Refusal {
	return &call.Refusal{Kind: call.Unimplemented, Reason: "DIALECT_UNSUPPORTED",
		Message: "the capability's backend speaks the " + d.String() + " dialect, which has no " + m.String()}
}
