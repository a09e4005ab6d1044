package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/semaphore"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
)

const (
	// maxDeliberations is how many calls are deliberated on at once, of all tenants. A flood of calls for one
	// decision is one question, but each of them waits.
	maxDeliberations = 10_000
	// maxHeld is how many bytes they hold together at the most.
	maxHeld = 64 << 20
	// patience is how long one of them waits for one answer of Redis.
	patience = 5 * time.Second
)

// matter is a call that is decided on.
type matter struct {
	call      call.Call
	requestID string
	span      *tracing.Span
	brought   filter.Peeked
	unnamed   bool               // the artifacts that it names have to be found
	named     []string           // they, when they are
	settings  []approvals.Sum    // what configures it is known by, once that was read
	checked   bool               // args keep to the schema, or it does not run
	schema    *toolschema.Schema // nil: then nobody knows it
	shielded  bool               // a Shield judges it
	decision  policy.Decision    // if known
	known     bool
	why       string // for a person who is asked, what else there is to say
	consent   consent

	credentials *credentials.Names // of the configuration; nil: it may be anything, and is nobody's business
}

// isToolCall says that tool and arguments are known, so that they can be judged.
func (m *matter) isToolCall() bool {
	return m.brought.Read && (m.call.Method == call.Invoke || m.call.Method == call.StreamInvoke)
}

// settled says that nothing more has to be found out.
func (m *matter) settled() bool {
	return m.known && (m.decision.Verdict == call.Block ||
		m.decision.Verdict == call.Allow && !m.checked && m.credentials == nil && !m.shielded && !m.unnamed)
}

// own makes the matter's words and bytes its own: the call's are those of a pooled struct, which
// another call gets when this one ends, and the others are parts of a buffer.
func (m *matter) own() *matter {
	own := *m
	c := &own.call
	c.Tenant, c.User, c.Agent = strings.Clone(c.Tenant), strings.Clone(c.User), strings.Clone(c.Agent)
	c.Tool, c.Path, c.Service, c.Session = strings.Clone(c.Tool), "", "", strings.Clone(c.Session)
	own.requestID, own.consent.id = strings.Clone(m.requestID), strings.Clone(m.consent.id)
	own.brought = m.brought.Clone()
	return &own
}

// outcome is what a deliberation comes to. Without a refusal the call may run.
type outcome struct {
	decision policy.Decision
	decided  bool                  // decision was made
	asked    *approvals.Approval   // a person was asked, who has not answered yet
	use      *approvals.Redemption // of a person's consent, which is for this call alone
	refusal  *call.Refusal
	named    []string // the artifacts that the call names, where they had to be found
}

// approval is the id of the approval that the call has, or needs.
func (o *outcome) approval() string {
	switch {
	case o.use != nil:
		return o.use.ID
	case o.asked != nil:
		return o.asked.ID
	}
	return ""
}

// deliberations are the decisions that take a while, because something has to be asked or
// looked at. They are made beside the relay; the streams are parked.
type deliberations struct {
	decider  Decider
	shield   Shield               // nil: there is none
	approver Approver             // nil: nobody can be asked
	describe Describe             // nil: of no tool anything is known
	tools    ToolNames            // nil: nobody knows
	slots    *fairshare.Pool      // calls, by tenant
	memory   *fairshare.Pool      // bytes of what they bring, by tenant
	checks   *semaphore.Semaphore // of what takes a processor's time
	waiting  *fairshare.Pool      // calls that wait for a person, by tenant
	running  sync.WaitGroup
	leaving  context.Context // ends when nobody may wait for a person any more
	leave    context.CancelFunc
}

func newDeliberations(cfg *Config, memory *fairshare.Pool) *deliberations {
	all := &deliberations{
		decider: cfg.Decider, shield: cfg.Shield, approver: cfg.Approver, describe: cfg.Describe, tools: cfg.Tools, memory: memory, checks: newChecks(),
		slots: fairshare.New("deciding", maxDeliberations), waiting: fairshare.New("waiting_for_people", maxWaiting),
	}
	all.leaving, all.leave = context.WithCancel(context.Background())
	return all
}

// start lets a call wait until it was deliberated on, or ctx ends.
func (d *deliberations) start(ctx context.Context, t *filter.Call, s *authorizeState, about *matter) *call.Refusal {
	held, slots := filter.NewHold(t, d.memory, about.brought.Size()), d.slots.Of(t.Principal.Owner())
	if held == nil {
		return t.OutOfMemory()
	}
	if !slots.Reserve(1) {
		held.Release()
		return t.OutOfMemory()
	}
	own := about.own() // another variable: one that the goroutine has would be on the heap for every call
	p := t.Park(tracing.ForDecision)
	d.running.Go(func() {
		o := outcome{refusal: filter.Panicked}
		recovery.Round("decision", func() { o = d.deliberate(ctx, own) })
		own.brought.Wipe()
		slots.Release(1)
		if o.asked != nil && recovery.Do("decision", func() error { d.await(ctx, own, &o); return nil }) != nil {
			o.refusal = filter.Panicked
		}
		held.Release()
		p.ResumeOr(func() { s.outcome = &o }, func() { d.release(o.use) })
	})
	return nil
}

// deliberate takes what has to be known in turn; the first that refuses the call has the
// last word.
func (d *deliberations) deliberate(ctx context.Context, m *matter) (o outcome) {
	if !m.known {
		m.span.Wait(tracing.ForPolicy)
		if m.decision, o.refusal = d.decider.Fetch(ctx, &m.call); o.refusal != nil {
			return o
		}
	}
	o.decision, o.decided = m.decision, true
	if o.decision.Verdict != call.Block {
		if o.refusal = d.check(ctx, m); o.refusal != nil {
			return o
		}
	}
	if o.decision.Verdict != call.Block && m.shielded {
		m.span.Wait(tracing.ForShield)
		d.judge(ctx, m, &o)
	}
	if o.refusal == nil && o.decision.Verdict == call.Ask {
		m.span.Wait(tracing.ForApproval)
		d.seek(ctx, m, &o)
	}
	o.named = m.named
	return o
}

// close waits for those that are at work.
func (d *deliberations) close() {
	d.leave()
	d.running.Wait()
}
