package gateway

import (
	"slices"
	"time"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router/affinity"
)

// forwardState is what the last filters of a call remember.
type forwardState struct {
	scanned  bool // outcome sees the response
	outcome  dialect.Scanner
	mentions *dialect.Mentions // sees the response; nil until it is needed
}

// forward sends a call to its backend.
type forward struct {
	h        *handler
	dialects bool // the calls have another path in each dialect
}

// Admit implements filter.Filter.
func (f forward) Admit(_ *filter.Call, t *callState) filter.Step {
	s := &t.forward
	if !t.InFlight {
		t.InFlight = true
		f.h.recorder.Begin(t.Metrics(), t.Principal.Metrics, uint32(t.Stream.Shard()))
	}
	t.Client.Tell(t.Stream)
	path := t.Info.Path
	if f.dialects {
		d := t.Endpoint.Dialect()
		path = t.pathAt(d)
		if d != call.Auto && d != t.Spoken.Dialect || t.Attempt.Past > 0 { // the first may have gone by another path
			t.Stream.SetPath(path)
		}
	}
	if s.outcome.Reset(t.Spoken.Method, t.Spoken.Dialect) {
		s.scanned = true
		f.h.watchArtifacts(t)
		t.Stream.TapResponse(t)
	}
	t.traceTry(path)
	t.Attempt.Started = true
	return t.Forward(upstreamOf(t.Endpoint))
}

// Done implements filter.Filter.
func (forward) Done(_ *filter.Call, t *callState, r *filter.Result) {
	if !r.Final {
		return
	}
	if t.Span != nil {
		var first time.Time
		if r.FirstByte > 0 {
			first = r.Started.Add(r.FirstByte)
		}
		t.Span.EndAttempt(r.Code, first, r.Started.Add(r.Ended))
	}
	if t.forward.scanned {
		t.Outcome = outcomes[t.forward.outcome.Outcome()]
	}
}

// Body sees the response before its caller does: it is a relay.Tap. From then on there may be state
// of the session at the backend, of which the caller may know.
func (t *callState) Body(p []byte) {
	t.Pin.Pinned.MarkUsed()
	if t.forward.scanned {
		t.forward.outcome.Body(p)
	}
}

// serveInside has a call answered by the services that the gateway itself offers.
func (h *handler) serveInside(t *callState) filter.Step { return t.serveBy(h.services) }

// answerHealth answers a Healthcheck, which no capability gets.
func answerHealth(t *callState) filter.Step { return t.Reply(healthReply(t.Fleet, t.Info.Dialect)) }

var _ relay.Tap = (*callState)(nil)

// pathAt is the path of the call's RPC, as it is spoken now, at a backend that speaks d.
func (t *callState) pathAt(d call.Dialect) string {
	if d == call.Auto {
		d = t.Spoken.Dialect
	}
	path, _ := dialect.Path(t.Spoken.Method, d) // there is one, or the call had not come so far
	return path
}

// watchArtifacts lets the response tell which artifacts its backend gives out.
func (h *handler) watchArtifacts(t *callState) {
	if !t.Principal.Bound() && !t.Fleet.TracksArtifacts() || !dialect.Watches(t.Info.Method) {
		return
	}
	if t.forward.mentions == nil { // it stays in the pool, for calls to come
		t.forward.mentions = dialect.NewMentions(func(id string) { h.learn(t, id) })
	}
	t.forward.mentions.Reset(t.Info.Method)
	if t.Principal.Bound() {
		t.forward.mentions.All()
	}
	t.forward.outcome.Watch(t.forward.mentions)
}

// learn takes note of an artifact. What the call itself has named is no news where a
// tool repeats it.
func (h *handler) learn(t *callState, id string) {
	if !slices.Contains(t.Artifacts.IDs, id) {
		h.affinity.Learn(affinity.Mention{Fleet: t.Fleet, Tenant: t.Info.Tenant, ID: id, Backend: t.Endpoint,
			Authoritative: t.Info.Method == call.UploadInputArtifact, OwnedOnly: t.Principal.Bound()})
	}
}

// traceTry lets a backend know which span its own are children of.
func (t *callState) traceTry(path string) {
	if t.Span != nil {
		t.Stream.SetHeader(tracing.Traceparent, t.Span.StartAttempt(t.Endpoint.Addr, path))
	}
}

var outcomes = [...]telemetry.Outcome{
	dialect.OutcomeUnknown: telemetry.NoOutcome,
	dialect.OK:             telemetry.Succeeded,
	dialect.ToolError:      telemetry.ToolError,
	dialect.CutOff:         telemetry.CutOff,
}
