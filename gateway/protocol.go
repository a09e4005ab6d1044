package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// protocolState is what is remembered of a call that its backend's dialect cannot say.
type protocolState struct {
	moved bool // the call was sent elsewhere for that
}

// protocol finds out how a call has to change for its backend. One that the backend's dialect cannot say goes to
// another backend of its fleet, if there is one and the call need not go to the first.
type protocol struct {
	// once: the calls were translated before, and are not again, if that can lose something: they would not say any
	// more what their callers said.
	once bool
}

// Admit implements filter.Filter.
func (f protocol) Admit(t *filter.Call, s *protocolState) filter.Step {
	if t.Attempt.Mode = f.modeFor(t, t.Endpoint.Dialect()); t.Attempt.Mode != dialect.Impossible {
		return filter.Continue
	}
	if t.Pin.Backend == nil && !s.moved {
		t.Attempt.Directed = t.Fleet.MatchDialect(func(d call.Dialect) bool { return f.modeFor(t, d) != dialect.Impossible }, t.Attempt.Failed)
	}
	switch {
	case t.Attempt.Directed != nil:
		s.moved = true
		return filter.Again
	case f.once: // it could be said when it went to the translator
		return t.Reject(filter.Unreachable(t.Fleet))
	}
	return t.Reject(untranslatable(t.Info.Method, t.Endpoint.Dialect()))
}

// Done implements filter.Filter.
func (protocol) Done(_ *filter.Call, s *protocolState, r *filter.Result) {
	if r.Unsent != nil {
		s.moved = false // a further attempt may be
	}
}

// modeFor is how a call gets to a backend that speaks d.
func (f protocol) modeFor(t *filter.Call, d call.Dialect) dialect.Mode {
	mode := dialect.Translate(t.Spoken.Method, t.Spoken.Dialect, d)
	if mode == dialect.Convert && f.once && t.Spoken.Method != call.UploadInputArtifact {
		return dialect.Impossible
	}
	return mode
}
