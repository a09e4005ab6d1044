package gateway

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

// Approver lets people decide on calls that may only run with their consent. Its methods may
// wait, until ctx ends.
type Approver interface {
	// Create finds the approval of a call that is open, or makes one. granted: somebody has
	// approved all such calls of the session.
	Create(context.Context, *approvals.Request) (a approvals.Approval, granted bool, refusal *call.Refusal)
	// Redeem consumes an approval for one call, which must be the one that it was given for.
	Redeem(ctx context.Context, id string, r *approvals.Request) (approvals.Redemption, *call.Refusal)
	// Release gives it back for a call that provably did not start.
	Release(context.Context, approvals.Redemption) error
	// Wait waits until an approval is answered or over. When ctx ends it is as it was.
	Wait(ctx context.Context, tenant, id string) (approvals.Approval, error)
}

// Describe tells what is known of a tool, from memory: its description and what it is known
// by, "" and zero where it is not known.
type Describe func(capability, tool string) (string, toolschema.Hash)

// Metadata by which a caller speaks of a call's approval. It goes no further.
const (
	approvalHeader = "x-approval-id"   // a person was asked about this call before
	waitHeader     = "x-approval-wait" // the call waits for the answer, so many seconds at most
)

const (
	// maxWaiting is how many calls wait at once for a person's answer, with maxWaitingArgs bytes
	// of arguments each. Others are told to come again.
	maxWaiting     = 4096
	maxWaitingArgs = 16 << 10
	// maxApprovalWait is how long one of them waits.
	maxApprovalWait = 10 * time.Minute
	// answerMargin is how long before its deadline such a call is told to come again.
	answerMargin = 500 * time.Millisecond
	// comeAgain is told to a caller whose call has to be approved: about as often as is
	// reasonable to look for a person's answer.
	comeAgain = 5 * time.Second
)

// consent is what a caller says of its call's approval.
type consent struct {
	id   string // "" where nobody was asked before
	wait time.Duration
}

// consentOf reads it, of a stream that has a deadline. The id is part of the stream's headers.
func consentOf(s filter.Stream) (c consent, refusal *call.Refusal) {
	if s.Contradicts(approvalHeader) || s.Contradicts(waitHeader) {
		return c, refusedConsent
	}
	c.id, _ = s.Header(approvalHeader)
	text, given := s.Header(waitHeader)
	if !given {
		return c, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 {
		return c, refusedConsent
	}
	c.wait = time.Duration(min(seconds, maxApprovalWait.Seconds()) * float64(time.Second))
	c.wait = max(0, min(c.wait, s.Left()-answerMargin))
	return c, nil
}

// seek gets a person's consent to a call, or says why there is none.
func (d *deliberations) seek(ctx context.Context, m *matter, o *outcome) {
	switch {
	case !m.isToolCall():
		o.refusal = refusedUnapprovable
		return
	case d.approver == nil:
		o.refusal = forbidden(&m.call, m.decision)
		return
	case m.consent.id != "":
		d.use(ctx, m, m.consent.id, o)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := d.request(m)
	a, granted, refusal := d.approver.Create(ctx, r)
	m.settings = r.Settings
	if o.refusal = refusal; refusal == nil && !granted {
		o.asked = &a
	}
}

// use is not given up when the caller leaves: nobody would know then whether it is used, and
// could give it back.
func (d *deliberations) use(ctx context.Context, m *matter, id string, o *outcome) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	use, refusal := d.approver.Redeem(ctx, id, d.request(m))
	if o.refusal = refusal; refusal == nil {
		o.use = &use
	}
}

// await lets a call wait for the answer, if its caller wants that, or sends it away.
func (d *deliberations) await(ctx context.Context, m *matter, o *outcome) {
	if m.consent.wait > 0 && len(m.brought.Args) <= maxWaitingArgs && d.wait(ctx, m.consent.wait, o.asked) {
		asked := o.asked
		m.known, m.consent.id = false, asked.ID                                // as if it had come again: it may be blocked by now
		m.checked, m.schema, m.credentials, m.unnamed = false, nil, nil, false // but what it brings was looked at
		*o = d.deliberate(ctx, m)
		o.asked = asked
		return
	}
	o.refusal = approvalRequired(&m.call, o)
}

// wait is true when the approval is answered or over.
func (d *deliberations) wait(ctx context.Context, most time.Duration, a *approvals.Approval) bool {
	waiting := d.waiting.Of(a.Tenant)
	if !waiting.Reserve(1) {
		return false
	}
	defer waiting.Release(1)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	defer context.AfterFunc(d.leaving, cancel)()
	seen, err := d.approver.Wait(ctx, a.Tenant, a.ID)
	if err == nil {
		*a = seen
	}
	return a.State != approvals.Pending
}

// release gives an approval back that was not made use of.
func (d *deliberations) release(use *approvals.Redemption) {
	if use == nil {
		return
	}
	slots := d.slots.Of(use.Tenant)
	if !slots.Reserve(1) {
		return // it stays used
	}
	d.running.Go(func() {
		defer slots.Release(1)
		defer recovery.Recover("decision")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = d.approver.Release(ctx, *use) // else it stays used
	})
}

// request is what a person is asked about a call.
func (d *deliberations) request(m *matter) *approvals.Request {
	b := &m.brought
	r := &approvals.Request{
		Tenant: m.call.Tenant, User: m.call.User, Agent: m.call.Agent, Capability: m.call.Capability, Tool: m.call.Tool, Session: m.call.Session,
		Args: b.Args, Config: b.Config, Thread: string(b.Thread), Settings: m.settings, RequestID: m.requestID, Trace: m.span.Traceparent(), Level: m.decision.Level.String(), Why: m.why,
	}
	r.Acquire = func(ctx context.Context) (func(), *call.Refusal) { return d.turn(ctx, m.call.Tenant) }
	for _, e := range b.Context {
		r.Context = append(r.Context, [2][]byte{e.Name, e.Value})
	}
	if d.describe != nil {
		r.Description, r.Schema = d.describe(m.call.Capability, m.call.Tool)
	}
	if m.decision.Drifted && m.why == "" {
		r.Why = "the tool has changed since it was last accepted"
	}
	return r
}
