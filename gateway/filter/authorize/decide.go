package authorize

import (
	"context"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

const (
	// maxChecked is the maximum number of calls that are checked at once, of all tenants. Equal decisions are fetched
	// once, but each call waits.
	maxChecked = 10_000
	// storePatience is the timeout of one request to the store.
	storePatience = 5 * time.Second
)

// request is a call that is checked beside the relay.
type request struct {
	call      call.Call
	requestID string
	span      *tracing.Span
	brought   filter.Peeked      // fields of its message
	unnamed   bool               // the artifacts that it names are not known yet
	named     []string           // the artifacts, once known
	settings  []approvals.Sum    // sums of its configuration, once read
	checked   bool               // the arguments must match the schema
	schema    *toolschema.Schema // nil with checked means unknown
	shielded  bool               // a Shield checks it
	decision  policy.Decision    // valid if known
	known     bool               // decision is valid
	why       string             // the Shield's reason, which approvers see
	approval  approvalAsk

	credentials *credentials.Names // allowed names in the configuration; nil means any
}

// isToolCall reports whether tool and arguments are known, so that they can be checked.
func (m *request) isToolCall() bool {
	return m.brought.Read && (m.call.Method == call.Invoke || m.call.Method == call.StreamInvoke)
}

// settled reports whether no further check is needed.
func (m *request) settled() bool {
	return m.known && (m.decision.Verdict == call.Block && m.decision.Level != policy.Default ||
		m.decision.Verdict == call.Allow && !m.checked && m.credentials == nil && !m.shielded && !m.unnamed)
}

// own returns a copy with its own strings and bytes. The strings of the call are those of a pooled struct, which is
// reused when the call ends, and the bytes are parts of a buffer.
func (m *request) own() *request {
	own := *m
	c := &own.call
	c.Tenant, c.User, c.Agent = strings.Clone(c.Tenant), strings.Clone(c.User), strings.Clone(c.Agent)
	c.Tool, c.Path, c.Session = strings.Clone(c.Tool), "", strings.Clone(c.Session)
	own.requestID, own.approval.id = strings.Clone(m.requestID), strings.Clone(m.approval.id)
	own.brought = m.brought.Clone()
	return &own
}

// result is the result of a check. Without a refusal the call may run.
type result struct {
	decision policy.Decision
	decided  bool                  // decision was fetched
	asked    *approvals.Approval   // the unanswered approval of the call
	held     time.Duration         // how long the call waited for a person
	use      *approvals.Redemption // an approval redeemed for this call
	repeats  bool                  // use was created for an earlier call
	refusal  *call.Refusal
	named    []string // the artifacts that the call names, if they were searched for
}

// approval returns the id of the approval that the call has or needs.
func (o *result) approval() string {
	switch {
	case o.use != nil:
		return o.use.ID
	case o.asked != nil:
		return o.asked.ID
	}
	return ""
}

// start starts the check of a call, which waits until the check ends or ctx ends.
func (f *Filter) start(ctx context.Context, c *filter.Call, s *State, q *request) *call.Refusal {
	held, slots := filter.NewHold(c, f.cfg.Memory, q.brought.Size()), f.slots.Of(c.Principal.Owner())
	if held == nil {
		return c.OutOfMemory()
	}
	if !slots.Reserve(1) {
		held.Release()
		return c.OutOfMemory()
	}
	own := q.own() // a separate variable: one that the goroutine captures would be allocated for every call
	p := c.Park(tracing.ForDecision)
	f.running.Go(func() {
		o := result{refusal: filter.Panicked}
		recovery.Round("decision", func() { o = f.decide(ctx, own) })
		own.brought.Wipe()
		slots.Release(1)
		if o.asked != nil && recovery.Do("decision", func() error { f.await(ctx, own, &o); return nil }) != nil {
			o.refusal = filter.Panicked
		}
		held.Release()
		p.ResumeOr(func() { s.check.result = &o }, func() { f.release(o.use) })
	})
	return nil
}

// decide makes the checks in order. The first refusal ends the call.
func (f *Filter) decide(ctx context.Context, m *request) (o result) {
	if !m.known {
		m.span.Wait(tracing.ForPolicy)
		if m.decision, o.refusal = f.cfg.Decider.Fetch(ctx, &m.call); o.refusal != nil {
			return o
		}
	}
	o.decision, o.decided = m.decision, true
	if o.decision.Verdict == call.Block && o.decision.Level == policy.Default {
		o.refusal = f.unknown(ctx, &m.call)
		return o
	}
	if o.decision.Verdict != call.Block {
		if o.refusal = f.check(ctx, m); o.refusal != nil {
			return o
		}
	}
	if o.decision.Verdict != call.Block && m.shielded {
		m.span.Wait(tracing.ForShield)
		f.consultShield(ctx, m, &o)
	}
	if o.refusal == nil && o.decision.Verdict == call.Ask {
		m.span.Wait(tracing.ForApproval)
		f.create(ctx, m, &o)
	}
	o.named = m.named
	return o
}
