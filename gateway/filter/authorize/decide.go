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
	// maxChecked is how many calls are checked at once, of all tenants. A flood of calls for one decision is one
	// question, but each of them waits.
	maxChecked = 10_000
	// storePatience is how long one of them waits for one answer of the store.
	storePatience = 5 * time.Second
)

// request is a call that is checked beside the relay.
type request struct {
	call      call.Call
	requestID string
	span      *tracing.Span
	brought   filter.Peeked      // the fields of its message
	unnamed   bool               // the artifacts that it names have to be found
	named     []string           // they, when they are
	settings  []approvals.Sum    // what configures it is known by, once that was read
	checked   bool               // args keep to the schema, or it does not run
	schema    *toolschema.Schema // nil means then nobody knows it
	shielded  bool               // a Shield judges it
	decision  policy.Decision    // if known
	known     bool               // decision is
	why       string             // told to a person who is asked: the Shield's reason
	approval  approvalAsk

	credentials *credentials.Names // of the configuration; nil means they are not checked
}

// isToolCall says that tool and arguments are known, so that they can be judged.
func (m *request) isToolCall() bool {
	return m.brought.Read && (m.call.Method == call.Invoke || m.call.Method == call.StreamInvoke)
}

// settled says that nothing more has to be found out.
func (m *request) settled() bool {
	return m.known && (m.decision.Verdict == call.Block && m.decision.Level != policy.Default ||
		m.decision.Verdict == call.Allow && !m.checked && m.credentials == nil && !m.shielded && !m.unnamed)
}

// own makes the request's words and bytes its own: the call's are those of a pooled struct, which
// another call gets when this one ends, and the others are parts of a buffer.
func (m *request) own() *request {
	own := *m
	c := &own.call
	c.Tenant, c.User, c.Agent = strings.Clone(c.Tenant), strings.Clone(c.User), strings.Clone(c.Agent)
	c.Tool, c.Path, c.Service, c.Session = strings.Clone(c.Tool), "", "", strings.Clone(c.Session)
	own.requestID, own.approval.id = strings.Clone(m.requestID), strings.Clone(m.approval.id)
	own.brought = m.brought.Clone()
	return &own
}

// result is what a check comes to. Without a refusal the call may run.
type result struct {
	decision policy.Decision
	decided  bool                  // decision was made
	asked    *approvals.Approval   // a person was asked, who has not answered yet
	held     time.Duration         // for which the call waited for that person
	use      *approvals.Redemption // of an approval, which is for this call alone
	repeats  bool                  // that one was created for an earlier call
	refusal  *call.Refusal
	named    []string // the artifacts that the call names, where they had to be found
}

// approval returns the id of the approval that the call has, or needs.
func (o *result) approval() string {
	switch {
	case o.use != nil:
		return o.use.ID
	case o.asked != nil:
		return o.asked.ID
	}
	return ""
}

// start lets a call wait until it was checked, or ctx ends.
func (f *Filter) start(ctx context.Context, c *filter.Call, s *State, q *request) *call.Refusal {
	held, slots := filter.NewHold(c, f.cfg.Memory, q.brought.Size()), f.slots.Of(c.Principal.Owner())
	if held == nil {
		return c.OutOfMemory()
	}
	if !slots.Reserve(1) {
		held.Release()
		return c.OutOfMemory()
	}
	own := q.own() // another variable: one that the goroutine has would be on the heap for every call
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

// decide takes what has to be known in turn; the first that refuses the call has the
// last word.
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
