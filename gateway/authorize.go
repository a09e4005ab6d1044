package gateway

import (
	"context"

	"github.com/capgate/capgate/gateway/filter"
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
	// Fetch may wait until ctx ends, and no longer than a store may take for its answer.
	Fetch(context.Context, *call.Call) (policy.Decision, *call.Refusal)
	// DependsOnTool says whether the tool of a call matters to what becomes of it.
	DependsOnTool(capability string) bool
	// Schema is what the arguments of a tool have to keep to, if they are to be checked; nil:
	// then nobody knows.
	Schema(capability, tool string) (s *toolschema.Schema, checked bool)
	// Credentials are those that calls may bring; nil: they may bring anything.
	Credentials(capability string) *credentials.Names
}

// authorizeState is what was decided about a call.
type authorizeState struct {
	quit    context.CancelFunc    // of what is being found out for it; nil: nothing was
	outcome *outcome              // of that, when it is there
	use     *approvals.Redemption // of a person's consent to it
}

// authorize finds out whether the call may run: at once where memory knows and nothing is to
// be looked at, as it is in the steady state, else beside the relay.
type authorize struct{ h *handler }

// Admit implements filter.Filter.
func (f authorize) Admit(_ *filter.Call, t *callState) filter.Step {
	s := &t.authorize
	if s.outcome != nil {
		return f.judge(t, s, s.outcome)
	}
	all := f.h.deliberations
	m := t.Fields()
	about := matter{
		call: t.Info, requestID: t.RequestID, span: t.Span,
		brought: m, credentials: f.h.decider.Credentials(t.Info.Capability),
		shielded: all.shielded(t.Info.Capability), unnamed: t.Artifacts.Unread,
	}
	about.schema, about.checked = f.h.decider.Schema(t.Info.Capability, t.Info.Tool)
	about.decision, about.known = f.h.decider.Decide(&t.Info)
	if about.settled() {
		return f.judge(t, s, &outcome{decision: about.decision, decided: true})
	}
	var refusal *call.Refusal
	if about.consent, refusal = consentOf(t.Stream); refusal == nil {
		var ctx context.Context
		ctx, s.quit = context.WithCancel(context.Background())
		refusal = all.start(ctx, &t.Call, s, &about)
	}
	if refusal != nil {
		return f.reject(&t.Call, s, refusal)
	}
	return filter.Wait
}

// judge turns what came out into what becomes of the call.
func (f authorize) judge(t *callState, s *authorizeState, o *outcome) filter.Step {
	s.use, t.Decision = o.use, filter.Decision{Decision: o.decision, Made: o.decided, Approval: o.approval()}
	if t.Artifacts.Unread && o.refusal == nil {
		t.Artifacts.IDs, t.Artifacts.Unread = o.named, false
	}
	if o.use != nil {
		t.Span.Approved(o.use.Trace)
	}
	refusal := o.refusal
	if t.errand != nil && refusal != nil && refusal.Reason == "APPROVAL_USED" {
		t.errand.only, refusal = refusal, nil // by the first call of its key, perhaps
	}
	if refusal == nil && o.decision.Verdict == call.Block {
		refusal = forbidden(&t.Info, o.decision)
	}
	if refusal != nil {
		return f.reject(&t.Call, s, refusal)
	}
	return filter.Continue
}

func (f authorize) reject(t *filter.Call, s *authorizeState, refusal *call.Refusal) filter.Step {
	f.end(t, s)
	return t.Reject(refusal)
}

// Done implements filter.Filter.
func (f authorize) Done(_ *filter.Call, t *callState, _ *filter.Result) { f.end(&t.Call, &t.authorize) }

// end ends what is being found out, and gives back an approval that was not made use of.
func (f authorize) end(t *filter.Call, s *authorizeState) {
	if s.quit != nil {
		s.quit()
		s.quit = nil
	}
	f.h.releaseUse(t, s)
}

// releaseUse gives a person's consent back where the call provably did not start.
func (h *handler) releaseUse(t *filter.Call, s *authorizeState) {
	if !t.Attempt.Started {
		h.deliberations.release(s.use)
	}
	s.use = nil
}
