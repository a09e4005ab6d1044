package gateway

import (
	"context"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/observe/tracing"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
)

// Decider says whether a call may run.
type Decider interface {
	// Decide answers from memory, and must not block. Where it does not know, Ask does.
	Decide(*call.Call) (policy.Decision, bool)
	// Ask may wait until ctx ends, and no longer than a store may take for its answer.
	Ask(context.Context, *call.Call) (policy.Decision, *call.Refusal)
	// Heeds says whether the tool of a call matters to what becomes of it.
	Heeds(capability string) bool
	// Schema is what the arguments of a tool have to keep to, if they are to be checked; nil:
	// then nobody knows.
	Schema(capability, tool string) (s *toolschema.Schema, checked bool)
	// Credentials are those that calls may bring; nil: they may bring anything.
	Credentials(capability string) *credentials.Names
}

// decide finds out whether the call may run: at once where memory knows and nothing is to
// be looked at, as it is in the steady state, else beside the relay. What is no call of a
// tool may pass, and so may what passed before.
func (h *handler) decide(s *relay.Stream, t *transit, m first) {
	if t.own || t.ours || t.before != nil || t.engine != nil {
		h.decided(s, t, nil)
		return
	}
	switch t.call.Method {
	case call.Healthcheck, call.UploadInputArtifact, call.DownloadOutputArtifact:
		h.decided(s, t, nil)
		return
	}
	about := matter{
		call: t.call, requestID: t.request, span: t.span, read: m.read,
		brought: m, credentials: h.decider.Credentials(t.call.Capability),
		shielded: h.deliberations.shielded(t.call.Capability), unnamed: t.unnamed,
	}
	about.schema, about.checked = h.decider.Schema(t.call.Capability, t.call.Tool)
	about.decision, about.known = h.decider.Decide(&t.call)
	if about.settled() {
		h.judge(s, t, outcome{decision: about.decision, decided: true})
		return
	}
	var refusal *call.Refusal
	if about.consent, refusal = consentOf(s); refusal == nil {
		var ctx context.Context
		ctx, t.quit = context.WithCancel(context.Background())
		refusal = h.deliberations.start(ctx, s, t, &about, func(s *relay.Stream, o outcome) {
			t := transitOf(s)
			t.span.GoOn(tracing.ForDecision)
			h.judge(s, t, o)
		})
	}
	if refusal != nil {
		h.decided(s, t, refusal)
		return
	}
	t.span.Wait(tracing.ForDecision)
}

// judge turns what came out into what becomes of the call.
func (h *handler) judge(s *relay.Stream, t *transit, o outcome) {
	t.decision, t.judged, t.use, t.approval = o.decision, o.decided, o.use, o.approval()
	if t.unnamed && o.refusal == nil {
		t.named, t.unnamed = o.named, false
	}
	if o.use != nil {
		t.span.Approved(o.use.Trace)
	}
	if t.errand != nil && o.refusal != nil && o.refusal.Reason == "APPROVAL_USED" {
		t.errand.only, o.refusal = o.refusal, nil // by the first call of its key, perhaps
	}
	if o.refusal == nil && o.decision.Verdict == call.Block {
		o.refusal = forbidden(&t.call, o.decision)
	}
	h.decided(s, t, o.refusal)
}
