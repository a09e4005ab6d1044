package gateway

import (
	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// adapts finds out how the call has to change for its backend, and whether it can.
func (t *transit) adapts() bool {
	if t.own {
		return true
	}
	t.mode = t.modeFor(t.target.Dialect())
	return t.mode != dialect.Impossible
}

// modeFor is how the call gets to a backend that speaks d. What was translated once is not
// translated again, if that can lose something: it would not say any more what its caller
// said.
func (t *transit) modeFor(d call.Dialect) dialect.Mode {
	mode := dialect.Translate(t.spoken.Method, t.spoken.Dialect, d)
	if mode == dialect.Convert && t.before.translated() && t.spoken.Method != call.UploadInputArtifact {
		return dialect.Impossible
	}
	return mode
}

// pathAt is the path of the call's RPC, as it is spoken now, at a backend that speaks d.
func (t *transit) pathAt(d call.Dialect) string {
	if d == call.Auto {
		d = t.spoken.Dialect
	}
	path, _ := dialect.Path(t.spoken.Method, d) // there is one, or the call had not come so far
	return path
}

// suit sends a call that its backend's dialect cannot say to another one of its fleet, if
// there is one and the call need not go to the first.
func (h *handler) suit(s *relay.Stream, t *transit) {
	if t.place.Backend == nil && !t.moved {
		t.suited = t.fleet.Speaking(func(d call.Dialect) bool { return t.modeFor(d) != dialect.Impossible }, t.tried)
	}
	switch {
	case t.suited != nil:
		t.moved = true
		t.done(router.Outcome{})
		h.send(s, t, nil)
	case t.before.translated(): // it could be said when it went to the translator
		h.refuse(s, t, unreachable(t.fleet))
	default:
		h.refuse(s, t, untranslatable(t.call.Method, t.target.Dialect()))
	}
}
