package authorize

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

// Decider says whether a call may run.
type Decider interface {
	// Decide answers from memory, and must not block. Where it does not know, Fetch does.
	Decide(*call.Call) (policy.Decision, bool)
	// Fetch may wait until ctx ends, and no longer than a store may take for its answer.
	Fetch(context.Context, *call.Call) (policy.Decision, *call.Refusal)
	// DependsOnTool says whether the decision depends on the tool of a call.
	DependsOnTool(capability string) bool
	// Schema is what the arguments of a tool have to keep to, if they are to be checked; nil means it is not known.
	Schema(capability, tool string) (s *toolschema.Schema, checked bool)
	// Credentials are those that calls may bring; nil means they may bring anything.
	Credentials(capability string) *credentials.Names
}

// Config is for a Filter. Decider and Memory are required.
type Config struct {
	Decider  Decider
	Shield   Shield          // judges calls, besides Decider; nil means none does
	Approver Approver        // asks people about calls that need an approval; nil means such calls are rejected
	Describe Describe        // of tools, for people who are asked; nil means nothing is known
	Tools    ToolNames       // of a capability, for clients that call another; nil means they are not known
	Memory   *fairshare.Pool // for messages of calls that wait, by tenant

	// Arguments returns the check of arguments by the protocol of a fleet, for which it may wait until ctx ends; nil:
	// there is none, or it is not known.
	Arguments func(ctx context.Context, capability string) CheckArguments
}

// State is the state of a call's authorization. Call.Decision has the decision.
type State struct {
	// Asked is called if the call needs an approval, and returns how long the call waits for the answer; nil means its
	// caller says so.
	Asked func(call.Approval) (wait time.Duration)
	Use   *approvals.Redemption // of an approval; nil means none was redeemed
	check *pending              // beside the relay; nil means none, or it has ended
}

// pending is a check beside the relay.
type pending struct {
	cancel context.CancelFunc
	result *result // nil means not yet
}

// Filter authorizes calls: at once where memory knows and nothing is to be checked, as it is in the steady state, else
// beside the relay.
type Filter struct {
	cfg     Config
	slots   *fairshare.Pool      // calls that are checked, by tenant
	checks  *semaphore.Semaphore // of what takes a processor's time
	waiting *fairshare.Pool      // calls that wait for a person, by tenant
	running sync.WaitGroup
	leaving context.Context // ends when no call may wait for a person any more
	leave   context.CancelFunc
}

// New returns a Filter, which is to be closed.
func New(cfg Config) *Filter {
	f := &Filter{
		cfg: cfg, checks: newChecks(),
		slots: fairshare.New("deciding", maxChecked), waiting: fairshare.New("waiting_for_people", maxWaiting),
	}
	f.leaving, f.leave = context.WithCancel(context.Background())
	return f
}

// ReadsMessages reports whether the decision on calls of a capability depends on their messages.
func (f *Filter) ReadsMessages(capability string) bool {
	return f.cfg.Decider.DependsOnTool(capability) || f.shielded(capability)
}

// Admit implements filter.Filter.
func (f *Filter) Admit(c *filter.Call, s *State) filter.Step {
	if s.check != nil {
		return f.decided(c, s, s.check.result)
	}
	q := request{
		call: c.Info, requestID: c.RequestID, span: c.Span,
		brought: c.Fields(), credentials: f.cfg.Decider.Credentials(c.Info.Capability),
		shielded: f.shielded(c.Info.Capability), unnamed: c.Principal.ArtifactsUnread,
	}
	q.schema, q.checked = f.cfg.Decider.Schema(c.Info.Capability, c.Info.Tool)
	q.decision, q.known = f.cfg.Decider.Decide(&c.Info)
	if q.settled() {
		return f.decided(c, s, &result{decision: q.decision, decided: true})
	}
	var refusal *call.Refusal
	if q.approval, refusal = readApproval(c, s.Asked); refusal == nil {
		var ctx context.Context
		s.check = &pending{}
		ctx, s.check.cancel = context.WithCancel(context.Background())
		refusal = f.start(ctx, c, s, &q)
	}
	if refusal != nil {
		return f.reject(c, s, refusal)
	}
	return filter.Wait
}

// decided goes on with a call, or rejects it, as the result says.
func (f *Filter) decided(c *filter.Call, s *State, r *result) filter.Step {
	s.Use, c.Decision = r.use, filter.Decision{Decision: r.decision, Made: r.decided, Repeats: r.repeats,
		Approval: r.approval()}
	c.Hold(r.held)
	if c.Principal.ArtifactsUnread && r.refusal == nil {
		c.Artifacts.IDs, c.Principal.ArtifactsUnread = r.named, false
	}
	if r.use != nil {
		c.Span.Approved(r.use.Trace)
	}
	refusal := r.refusal
	if c.Keyed && refusal != nil && refusal.Reason == "APPROVAL_USED" {
		c.Decision.Redeemed, refusal = refusal, nil // by the first call of its key, perhaps
	}
	if refusal == nil && r.decision.Verdict == call.Block {
		refusal = forbidden(&c.Info, r.decision)
	}
	if refusal != nil {
		return f.reject(c, s, refusal)
	}
	return filter.Continue
}

func (f *Filter) reject(c *filter.Call, s *State, refusal *call.Refusal) filter.Step {
	f.end(c, s)
	return c.Reject(refusal)
}

// Done implements filter.Filter.
func (f *Filter) Done(c *filter.Call, s *State, _ *filter.Result) { f.end(c, s) }

// end ends the check, and gives back an approval that was not made use of.
func (f *Filter) end(c *filter.Call, s *State) {
	if s.check != nil {
		s.check.cancel()
		s.check = nil
	}
	f.Release(c, s)
}

// Release gives a call's approval back if the call provably did not start.
func (f *Filter) Release(c *filter.Call, s *State) {
	if c.Attempt.Progress == call.NotSent {
		f.release(s.Use)
	}
	s.Use = nil
}

// Leave ends all waiting for people.
func (f *Filter) Leave() { f.leave() }

// Close waits for the checks that run.
func (f *Filter) Close() {
	f.leave()
	f.running.Wait()
}
