package gateway

import (
	"slices"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router/affinity"
)

// forwardState is what the last filters of a call remember.
type forwardState struct {
	mode     dialect.Mode // how the call gets to a backend of another dialect
	started  bool         // a backend may have begun to carry it out
	begun    bool         // counted as in flight at fleet and tenant
	scanned  bool         // outcome sees the response
	outcome  dialect.Scanner
	mentions *dialect.Mentions // sees the response; nil until it is needed
}

// forward sends a call to its backend.
type forward struct {
	h        *handler
	dialects bool // the calls have another path in each dialect
}

// Admit implements filter.
func (f forward) Admit(t *transit, s *forwardState) Step {
	if !s.begun {
		s.begun = true
		f.h.recorder.Begin(t.metrics, t.tenant, uint32(t.stream.Shard()))
	}
	t.origin.tell(t.stream)
	path := t.call.Path
	if f.dialects {
		d := t.target.Dialect()
		path = t.pathAt(d)
		if d != call.Auto && d != t.spoken.Dialect || t.retry.tries > 0 { // the first may have gone by another path
			t.stream.SetPath(path)
		}
	}
	if s.outcome.Reset(t.spoken.Method, t.spoken.Dialect) {
		s.scanned = true
		f.h.watchArtifacts(t)
		t.stream.TapResponse(t)
	}
	t.traceTry(t.stream, path)
	s.started = true
	return t.serve(upstreamOf(t.target))
}

// Done implements filter.
func (forward) Done(*transit, *forwardState, *result) {}

// Body sees the response before its caller does: it is a relay.Tap. From then on there may be state
// of the session at the backend, of which the caller may know.
func (t *transit) Body(p []byte) {
	t.affinity.place.Pinned.Used()
	if t.forward.scanned {
		t.forward.outcome.Body(p)
	}
}

// forwardInside sends a call to the services that the gateway itself offers.
func (h *handler) forwardInside(t *transit) Step {
	who := tenant.Identity{
		Tenant: t.call.Tenant, Key: t.call.Key, Scopes: t.auth.scopes,
		User: t.call.User, Agent: t.call.Agent, Settings: t.settings,
	}
	t.stream.SetHeader(tenant.Metadata, who.Text())
	return t.serve(h.services)
}

// translate sends a call that has to be translated to the translator.
type translate struct {
	h    *handler
	back *list // that the translated call comes back by
}

// Admit implements filter.
func (f translate) Admit(t *transit, _ *crossingState) Step {
	if t.forward.mode != dialect.Convert {
		return Continue
	}
	f.h.leave(t, f.back)
	t.stream.TapResponse(t)
	return t.serve(f.h.services)
}

// Done implements filter.
func (f translate) Done(t *transit, _ *crossingState, r *result) { f.h.comeHome(t, r) }

// guarded sends a call of an engine that is guarded to the guard.
type guarded struct {
	h    *handler
	back *list // that a guarded call comes back by
}

// Admit implements filter.
func (f guarded) Admit(t *transit, _ *crossingState) Step {
	if !t.engine.Guarded {
		return Continue
	}
	f.h.leave(t, f.back)
	t.stream.TapResponse(t)
	return t.serve(f.h.guard.server.upstream)
}

// Done implements filter.
func (f guarded) Done(t *transit, _ *crossingState, r *result) { f.h.comeHome(t, r) }

// answerHealth answers a Healthcheck, which no capability gets.
func answerHealth(t *transit) Step { return t.reply(healthReply(t.fleet, t.call.Dialect)) }

var _ relay.Tap = (*transit)(nil)

// pathAt is the path of the call's RPC, as it is spoken now, at a backend that speaks d.
func (t *transit) pathAt(d call.Dialect) string {
	if d == call.Auto {
		d = t.spoken.Dialect
	}
	path, _ := dialect.Path(t.spoken.Method, d) // there is one, or the call had not come so far
	return path
}

// watchArtifacts lets the response tell which artifacts its backend gives out.
func (h *handler) watchArtifacts(t *transit) {
	if !t.binds() && !t.fleet.Tracks() || !dialect.Watches(t.call.Method) {
		return
	}
	if t.forward.mentions == nil { // it stays with the transit, for calls to come
		t.forward.mentions = dialect.NewMentions(func(id string) { h.learn(t, id) })
	}
	t.forward.mentions.Reset(t.call.Method)
	if t.binds() {
		t.forward.mentions.All()
	}
	t.forward.outcome.Watch(t.forward.mentions)
}

// learn takes note of an artifact. What the call itself has named is no news where a
// tool repeats it.
func (h *handler) learn(t *transit, id string) {
	if !slices.Contains(t.affinity.named, id) {
		h.affinity.Learn(affinity.Mention{Fleet: t.fleet, Tenant: t.call.Tenant, ID: id, Backend: t.target,
			Sure: t.call.Method == call.UploadInputArtifact, Bound: t.binds()})
	}
}

// traceTry lets a backend know which span its own are children of.
func (t *transit) traceTry(s *relay.Stream, path string) {
	if t.span != nil {
		s.SetHeader(tracing.Traceparent, t.span.Try(t.target.Addr, path))
	}
}
