package gateway

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
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

// authorizeState is what was decided about a call.
type authorizeState struct {
	decision policy.Decision    // whether it may run
	judged   bool               // decision was made
	quit     context.CancelFunc // of what is being found out for it; nil: nothing was
	outcome  *outcome           // of that, when it is there
	use      *approvals.Use     // of a person's consent to it
	approval string             // the id of that, or of the one that is missing
}

// authorize finds out whether the call may run: at once where memory knows and nothing is to
// be looked at, as it is in the steady state, else beside the relay.
type authorize struct{ h *handler }

// Admit implements filter.
func (f authorize) Admit(t *transit, s *authorizeState) Step {
	if s.outcome != nil {
		return f.judge(t, s, s.outcome)
	}
	all := f.h.deliberations
	m := t.said()
	about := matter{
		call: t.call, requestID: t.request, span: t.span, read: m.read,
		brought: m, credentials: f.h.decider.Credentials(t.call.Capability),
		shielded: all.shielded(t.call.Capability), unnamed: t.affinity.unnamed,
	}
	about.schema, about.checked = f.h.decider.Schema(t.call.Capability, t.call.Tool)
	about.decision, about.known = f.h.decider.Decide(&t.call)
	if about.settled() {
		return f.judge(t, s, &outcome{decision: about.decision, decided: true})
	}
	var refusal *call.Refusal
	if about.consent, refusal = consentOf(t.stream); refusal == nil {
		var ctx context.Context
		ctx, s.quit = context.WithCancel(context.Background())
		refusal = all.start(ctx, t, f.h.driver, &about)
	}
	if refusal != nil {
		return f.reject(t, s, refusal)
	}
	return Wait
}

// judge turns what came out into what becomes of the call.
func (f authorize) judge(t *transit, s *authorizeState, o *outcome) Step {
	s.decision, s.judged, s.use, s.approval = o.decision, o.decided, o.use, o.approval()
	if t.affinity.unnamed && o.refusal == nil {
		t.affinity.named, t.affinity.unnamed = o.named, false
	}
	if o.use != nil {
		t.span.Approved(o.use.Trace)
	}
	refusal := o.refusal
	if t.errand != nil && refusal != nil && refusal.Reason == "APPROVAL_USED" {
		t.errand.only, refusal = refusal, nil // by the first call of its key, perhaps
	}
	if refusal == nil && o.decision.Verdict == call.Block {
		refusal = forbidden(&t.call, o.decision)
	}
	if refusal != nil {
		return f.reject(t, s, refusal)
	}
	return Continue
}

func (f authorize) reject(t *transit, s *authorizeState, refusal *call.Refusal) Step {
	f.end(t, s)
	return t.reject(refusal)
}

// Done implements filter.
func (f authorize) Done(t *transit, s *authorizeState, _ *result) { f.end(t, s) }

// end ends what is being found out, and gives back an approval that was not made use of.
func (f authorize) end(t *transit, s *authorizeState) {
	if s.quit != nil {
		s.quit()
		s.quit = nil
	}
	f.h.releaseUse(t, s)
}

// releaseUse gives a person's consent back where the call provably did not start.
func (h *handler) releaseUse(t *transit, s *authorizeState) {
	if !t.forward.started {
		h.deliberations.release(s.use)
	}
	s.use = nil
}
