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

// Decider decides whether a call may run.
type Decider interface {
	// DecideAt decides from memory at a time; zero means now. It must not block. If it returns false, the caller must
	// use Fetch.
	DecideAt(*call.Call, time.Time) (policy.Decision, bool)
	// Fetch may wait until ctx ends, but at most as long as a store may take for its answer.
	Fetch(context.Context, *call.Call) (policy.Decision, *call.Refusal)
	// DependsOnTool reports whether the decision depends on the tool of a call.
	DependsOnTool(capability string) bool
	// Schema returns the schema of a tool's arguments; nil means unknown. checked is true if arguments must match it.
	Schema(capability, tool string) (s *toolschema.Schema, checked bool)
	// Credentials returns the names that the configuration of calls may contain; nil means any.
	Credentials(capability string) *credentials.Names
}

// Config configures a Filter. Decider and Memory are required.
type Config struct {
	Decider  Decider
	Shield   Shield          // checks calls in addition to Decider; optional
	Approver Approver        // lets people approve calls; nil means calls that need an approval are rejected
	Describe Describe        // describes tools to approvers; optional
	Tools    ToolNames       // lists a capability's tools in rejections; optional
	Memory   *fairshare.Pool // for messages of waiting calls, by tenant

	// Arguments returns the check of arguments by the protocol of a fleet, for which it may wait until ctx ends; nil
	// means none, or that it is not known.
	Arguments func(ctx context.Context, capability string) CheckArguments
}

// State is the state of a call's authorization. The decision is in Call.Decision.
type State struct {
	Asking *call.Asking          // of the front door; nil means none
	Use    *approvals.Redemption // redeemed approval; nil means none
	check  *pending              // check beside the relay; nil means none, or that it has ended
}

// pending is a check beside the relay.
type pending struct {
	cancel context.CancelFunc
	result *result // nil until it is known
}

// Filter authorizes calls: from memory if possible, as in the steady state, otherwise beside the relay.
type Filter struct {
	cfg     Config
	slots   *fairshare.Pool      // checked calls, by tenant
	checks  *semaphore.Semaphore // limits checks that take processor time
	waiting *fairshare.Pool      // calls that wait for people, by tenant
	running sync.WaitGroup
	leaving context.Context // ends when calls must no longer wait for people
	leave   context.CancelFunc
}

// New returns a Filter. The caller must close it.
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
	if done := s.check; done != nil {
		done.cancel()
		s.check = nil
		return f.decided(c, s, done.result)
	}
	q := request{
		call: c.Info, requestID: c.RequestID, span: c.Span,
		brought: c.Fields(), credentials: f.cfg.Decider.Credentials(c.Info.Capability),
		shielded: f.shielded(c.Info.Capability), unnamed: c.Artifacts.Unread,
	}
	q.schema, q.checked = f.cfg.Decider.Schema(c.Info.Capability, c.Info.Tool)
	q.decision, q.known = f.cfg.Decider.DecideAt(&c.Info, c.Stream.Now())
	if q.settled() {
		return f.decided(c, s, &result{decision: q.decision, decided: true})
	}
	var refusal *call.Refusal
	if q.approval, refusal = readApproval(c, s.Asking); refusal == nil {
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

// decided continues or rejects a call according to the result of the check.
func (f *Filter) decided(c *filter.Call, s *State, r *result) filter.Step {
	s.Use, c.Decision = r.use, filter.Decision{Decision: r.decision, Made: r.decided, Repeats: r.repeats,
		Approval: r.approval()}
	c.Hold(r.held)
	if c.Artifacts.Unread && r.refusal == nil {
		c.Artifacts.IDs, c.Artifacts.Unread = r.named, false
	}
	if r.use != nil {
		c.Span.Approved(r.use.Trace)
	}
	refusal := r.refusal
	if c.Keyed && refusal != nil && refusal.Reason == "APPROVAL_USED" {
		c.Redeemed, refusal = refusal, nil // perhaps by the first call with its key
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

// end cancels the check, and releases an unused approval.
func (f *Filter) end(c *filter.Call, s *State) {
	if s.check != nil {
		s.check.cancel()
		s.check = nil
	}
	f.Release(c, s)
}

// Release releases a call's approval if the call provably did not start.
func (f *Filter) Release(c *filter.Call, s *State) {
	if c.Attempt.Progress == call.NotSent {
		f.release(s.Use)
	}
	s.Use = nil
}

// Leave ends all waits for people.
func (f *Filter) Leave() { f.leave() }

// Close waits for the running checks.
func (f *Filter) Close() {
	f.leave()
	f.running.Wait()
}
