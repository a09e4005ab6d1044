package protocol

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// State is what is remembered of a call that its backend's dialect cannot say.
type State struct {
	moved bool // the call was sent elsewhere for that
}

// Filter finds out how a call has to change for its backend. One that the backend's dialect cannot say goes to
// another backend of its fleet, if there is one and the call need not go to the first.
// A call that was translated is not translated again if that can lose something: it would not say any more what its
// caller said.
type Filter struct{}

// Admit implements filter.Filter.
func (Filter) Admit(c *filter.Call, s *State) filter.Step {
	if c.Attempt.Mode = modeFor(c, c.Endpoint.Dialect()); c.Attempt.Mode != dialect.Impossible {
		return filter.Continue
	}
	if c.Pin.Backend == nil && !s.moved {
		possible := func(d call.Dialect) bool { return modeFor(c, d) != dialect.Impossible }
		c.Attempt.Directed = c.Fleet.MatchDialect(possible, c.Attempt.Tried)
	}
	switch {
	case c.Attempt.Directed != nil:
		s.moved = true
		return filter.Again
	case c.Attempt.Translated: // it could be said when it went to the translator
		return c.Reject(filter.Unreachable(c.Fleet))
	}
	return c.Reject(untranslatable(c.Info.Method, c.Endpoint.Dialect()))
}

// Done implements filter.Filter.
func (Filter) Done(_ *filter.Call, s *State, r *filter.Result) {
	if r.Unsent != nil {
		s.moved = false // a further attempt may be
	}
}

// modeFor is how a call gets to a backend that speaks d.
func modeFor(c *filter.Call, d call.Dialect) dialect.Mode {
	mode := dialect.Translate(c.Spoken.Method, c.Spoken.Dialect, d)
	if mode == dialect.Convert && c.Attempt.Translated && c.Spoken.Method != call.UploadInputArtifact {
		return dialect.Impossible
	}
	return mode
}

// untranslatable returns the end of a call that the backend's dialect cannot say.
func untranslatable(m call.Method, d call.Dialect) *call.Refusal {
	return &call.Refusal{Kind: call.Unimplemented, Reason: "DIALECT_UNSUPPORTED",
		Message: "the capability's backend speaks the " + d.String() + " dialect, which has no " + m.String()}
}
