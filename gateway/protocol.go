package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
)

// protocol finds out how a call has to change for its backend. One that the backend's dialect cannot say goes to
// another backend of its fleet, if there is one and the call need not go to the first.
type protocol struct {
	// once: the calls were translated before, and are not again, if that can lose something: they would not say any
	// more what their callers said.
	once bool
}

// Admit implements filter.
func (f protocol) Admit(t *transit, s *pickState) Step {
	if t.forward.mode = f.modeFor(t, t.target.Dialect()); t.forward.mode != dialect.Impossible {
		return Continue
	}
	if t.affinity.place.Backend == nil && !s.moved {
		s.suited = t.fleet.Speaking(func(d call.Dialect) bool { return f.modeFor(t, d) != dialect.Impossible }, t.retry.tried)
	}
	switch {
	case s.suited != nil:
		s.moved = true
		return Again
	case f.once: // it could be said when it went to the translator
		return t.reject(unreachable(t.fleet))
	}
	return t.reject(untranslatable(t.call.Method, t.target.Dialect()))
}

// Done implements filter.
func (protocol) Done(*transit, *pickState, *result) {}

// modeFor is how a call gets to a backend that speaks d.
func (f protocol) modeFor(t *transit, d call.Dialect) dialect.Mode {
	mode := dialect.Translate(t.spoken.Method, t.spoken.Dialect, d)
	if mode == dialect.Convert && f.once && t.spoken.Method != call.UploadInputArtifact {
		return dialect.Impossible
	}
	return mode
}
