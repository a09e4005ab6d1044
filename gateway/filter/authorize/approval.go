package authorize

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/approvals"
)

// Approver lets people decide on calls that need an approval. Its methods may wait until ctx ends.
type Approver interface {
	// Create returns the open approval of a call, or creates one. granted is true if all such calls of the session are
	// approved.
	Create(context.Context, *approvals.Request) (a approvals.Approval, granted bool, refusal *call.Refusal)
	// Redeem redeems an approval for one call, which must be the call that it was created for.
	Redeem(ctx context.Context, id string, r *approvals.Request) (approvals.Redemption, *call.Refusal)
	// Release returns an approval of a call that provably did not start.
	Release(context.Context, approvals.Redemption) error
	// Wait waits until an approval is answered or expired. If ctx ends first, it returns the current state.
	Wait(ctx context.Context, tenant, id string) (approvals.Approval, error)
}

// Describe returns the description of a tool for people, from memory; the zero value means unknown.
type Describe func(capability, tool string) Description

// Description describes a tool for people.
type Description struct {
	Description string
	Change      string          // how it differs from its accepted version; empty means it does not
	Schema      toolschema.Hash // of the tool
}

// Metadata in which a client names a call's approval. It is not forwarded.
const (
	approvalHeader = "x-approval-id"   // the approval of an earlier call
	waitHeader     = "x-approval-wait" // how long the call waits for the answer, in seconds
)

const (
	// maxWaiting is the maximum number of calls that wait for people, with maxWaitingArgs bytes of arguments each.
	// Clients of further calls must retry later.
	maxWaiting     = 4096
	maxWaitingArgs = 16 << 10
	// maxApprovalWait is the maximum wait of a call.
	maxApprovalWait = 10 * time.Minute
	// answerMargin is the time before its deadline at which a waiting call ends, so that its client learns of the
	// approval.
	answerMargin = 500 * time.Millisecond
	// comeAgain is the retry time of a call that needs an approval. People do not answer faster.
	comeAgain = 5 * time.Second
)

// approvalAsk holds a client's request about the approval of its call.
type approvalAsk struct {
	id    string // empty means none yet
	found bool   // created by an earlier call
	never bool   // the call is refused instead
	wait  time.Duration
	// until is the latest end of the wait, independent of the time for the decision.
	until time.Time
	asked func(call.Approval) (wait time.Duration) // returns the wait once an approval exists; nil means until holds

	toolset string // requires the approval of a call that would be allowed; empty means none
}

// readApproval reads the headers of a call about its approval. The id is a part of the request headers. Without
// headers, a call waits as its listener or fleet says, but leaves a quarter of its time for the tool.
func readApproval(of *filter.Call, asking *call.Asking) (c approvalAsk, refusal *call.Refusal) {
	s := of.Stream
	if s.Contradicts(approvalHeader) || s.Contradicts(waitHeader) {
		return c, rejectedApproval
	}
	c.id, c.found = s.Header(approvalHeader)
	if asking != nil {
		c.asked, c.toolset, c.never = asking.Asked, asking.Toolset, asking.Impossible
	}
	most := s.Left() - answerMargin
	if text, present := s.Header(waitHeader); present {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(seconds) || seconds < 0 {
			return c, rejectedApproval
		}
		c.wait = time.Duration(min(seconds, maxApprovalWait.Seconds()) * float64(time.Second))
	} else if c.asked == nil {
		c.wait, most = defaultWait(of), min(most, s.Left()/4*3)
	}
	c.until = time.Now().Add(most)
	return c, nil
}

// defaultWait returns the wait of a call whose client does not request one.
func defaultWait(c *filter.Call) time.Duration {
	if l := c.Client.At; l != nil && l.ApprovalWait != nil {
		return *l.ApprovalWait
	}
	return c.Fleet.ApprovalWait()
}

// create creates the approval of a call, or redeems the one that its client names.
func (f *Filter) create(ctx context.Context, m *request, o *result) {
	switch {
	case !m.isToolCall():
		o.refusal = rejectedUnapprovable
		return
	case m.approval.never:
		o.refusal = rejectedNever(&m.call)
		return
	case f.cfg.Approver == nil:
		o.refusal = m.requiresApproval(m.decision)
		return
	case m.approval.id != "":
		f.redeem(ctx, m, m.approval.id, o)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	r := f.approvalRequest(m)
	a, granted, refusal := f.cfg.Approver.Create(ctx, r)
	m.settings = r.Settings
	if o.refusal = refusal; refusal == nil && !granted {
		o.asked, m.approval.found = &a, a.State == approvals.Approved
	}
}

// redeem redeems an approval. It continues after the caller has left; otherwise it would be unknown whether the
// approval is used, and it could not be released.
func (f *Filter) redeem(ctx context.Context, m *request, id string, o *result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	use, refusal := f.cfg.Approver.Redeem(ctx, id, f.approvalRequest(m))
	if o.refusal = refusal; refusal == nil {
		o.use, o.repeats = &use, m.approval.found
		return
	}
	if m.approval.asked != nil && refusal.Reason == call.ApprovalPending {
		o.asked = &approvals.Approval{ID: id, Binding: approvals.Binding{Tenant: m.call.Tenant},
			State: approvals.Pending, Link: refusal.Metadata["approval_link"]}
	}
}

// await makes a call wait for the answer, if its client or its front door requests that, or rejects it.
func (f *Filter) await(ctx context.Context, m *request, o *result) {
	answered := false
	if asked := m.approval.asked; asked != nil {
		m.approval.wait, m.approval.asked = asked(call.Approval{ID: o.asked.ID, Link: o.asked.Link,
			Expires: o.asked.Expires, Pending: o.asked.State == approvals.Pending}), nil
	}
	most := min(m.approval.wait, time.Until(m.approval.until))
	if most > 0 && len(m.brought.Args) <= maxWaitingArgs {
		since := time.Now()
		answered = f.wait(ctx, most, o.asked)
		o.held = time.Since(since)
	}
	if answered {
		asked, held := o.asked, o.held
		// As for a retry: policies may block the call by now.
		m.known, m.approval.id = false, asked.ID
		// but not its content, which has not changed
		m.checked, m.schema, m.credentials, m.unnamed = false, nil, nil, false
		*o = f.decide(ctx, m)
		o.asked, o.held = asked, held
		return
	}
	if o.refusal == nil || !o.asked.Expires.IsZero() { // otherwise the refusal alone describes the approval
		o.refusal = approvalRequired(m, o)
	}
}

// wait reports whether the approval was answered or has expired.
func (f *Filter) wait(ctx context.Context, most time.Duration, a *approvals.Approval) bool {
	waiting := f.waiting.Of(a.Tenant)
	if !waiting.Reserve(1) {
		return false
	}
	defer waiting.Release(1)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	defer context.AfterFunc(f.leaving, cancel)()
	seen, err := f.cfg.Approver.Wait(ctx, a.Tenant, a.ID)
	if err == nil {
		*a = seen
	}
	return a.State != approvals.Pending
}

// release returns an unused approval.
func (f *Filter) release(use *approvals.Redemption) {
	if use == nil {
		return
	}
	slots := f.slots.Of(use.Tenant)
	if !slots.Reserve(1) {
		return // it stays used
	}
	f.running.Go(func() {
		defer slots.Release(1)
		defer recovery.Recover("decision")
		ctx, cancel := context.WithTimeout(context.Background(), storePatience)
		defer cancel()
		_ = f.cfg.Approver.Release(ctx, *use) // on error it stays used
	})
}

// approvalRequest returns what people are shown about a call.
func (f *Filter) approvalRequest(m *request) *approvals.Request {
	b := &m.brought
	r := &approvals.Request{
		Tenant: m.call.Tenant, User: m.call.User, Agent: m.call.Agent,
		Capability: m.call.Capability, Tool: m.call.Tool, Session: m.call.Session,
		Args: b.Args, Config: b.Config, Thread: string(b.Thread), Settings: m.settings,
		RequestID: m.requestID, Trace: m.span.Traceparent(), Level: m.level(m.decision), Why: m.why,
	}
	r.Acquire = func(ctx context.Context) (func(), *call.Refusal) { return f.turn(ctx, m.call.Tenant) }
	for _, e := range b.Context {
		r.Context = append(r.Context, [2][]byte{e.Name, e.Value})
	}
	if f.cfg.Describe != nil {
		of := f.cfg.Describe(m.call.Capability, m.call.Tool)
		r.Description, r.Change, r.Schema = of.Description, of.Change, of.Schema
	}
	switch {
	case !m.decision.Drifted || m.why != "":
	case m.call.Changed:
		r.Why = "the tool has changed since its toolset described it"
	default:
		r.Why = "the tool has changed since it was last accepted"
	}
	return r
}
