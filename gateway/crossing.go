package gateway

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/router"
)

// ticketHeader carries the ticket of a call through the translator, or the keeper of answers. It
// is never sent to a backend.
const ticketHeader = "x-capgate-ticket"

// crossing is what the second passage of a call takes over from the first. Whoever has it
// owns the claim, the use and the permit.
type crossing struct {
	call     call.Call // as its caller made it
	caller   tenant.Identity
	metered  *telemetry.TenantMetrics // nil: the gateway itself made it
	back     *list                    // that it comes back by
	target   *router.Backend          // nil: it went to the keeper of answers, before a backend was chosen
	claim    router.Permit            // on target
	tries    int
	named    []string
	decision policy.Decision
	judged   bool
	use      *approvals.Redemption
	approval string
	permit   ratelimit.Permit
	errand   *errand // nil: the call has no idempotency key
	span     *tracing.Span
	trace    telemetry.TraceID
	came     time.Time
	shadowed string

	claimed atomic.Bool // by the second passage, or back by the first
	ends    ends        // of both, where the call is translated
}

// crossings are the calls that went to the translator, or to the keeper of answers. Such a call
// passes the gateway twice. The second passage goes where the first meant it to go: were it to choose
// again, a fleet whose backends speak different dialects could send it to and fro
// without end. And the call is recorded once, by whoever claimed its ticket: the second passage if
// there was one, as only that knows what became of it. What its caller got only the first knows
// if it was translated, so that is recorded when both have ended (see ends).
type crossings struct {
	secret string // at the beginning of every ticket; no caller knows it
	ours   string // the ticket of every call that the gateway itself makes, the same
	last   atomic.Uint64
	open   sync.Map // of tickets whose first passage goes on, to their *crossing
}

func newCrossings() *crossings { return &crossings{secret: rand.Text(), ours: rand.Text()} }

// issue makes the ticket of a call that goes to the translator.
func (c *crossings) issue(x *crossing) string {
	ticket := c.secret + strconv.FormatUint(c.last.Add(1), 36)
	c.open.Store(ticket, x)
	return ticket
}

// claim is true once for every ticket.
func (c *crossings) claim(ticket string) (*crossing, bool) {
	x, open := c.look(ticket)
	if !open || x.claimed.Swap(true) {
		return nil, false
	}
	return x, true
}

// look is whose ticket it is, while that one's first passage goes on.
func (c *crossings) look(ticket string) (*crossing, bool) {
	x, open := c.open.Load(ticket)
	if !open {
		return nil, false
	}
	return x.(*crossing), true
}

// lookIn is whose ticket the call inside the process has that ctx is of.
func (c *crossings) lookIn(ctx context.Context) (*crossing, bool) {
	md, _ := metadata.FromIncomingContext(ctx)
	return c.look(strings.Join(md.Get(ticketHeader), ""))
}

// comesBack tells a call that comes from the translator from one whose caller made a
// ticket up.
func (c *crossings) comesBack(ticket string) bool { return strings.HasPrefix(ticket, c.secret) }

// crossingState is what is remembered of a call's passages.
type crossingState struct {
	came     string    // the ticket by which it came back; "": this is its first passage
	before   *crossing // that passage, if it came back
	ticket   string    // it went on with
	taken    bool      // what went on with that was taken back
	recorded bool      // it came back, but its ticket was claimed
}

// had says whether a call that has ended was last here: it is no other passage of it that knows
// what became of it. One that never came back is again what it was when it left.
func (s *crossingState) had() bool { return !s.recorded && (s.ticket == "" || s.taken) }

// leave sends a call on its way to the translator with a ticket, and all that it has. It comes back by that list.
func (h *handler) leave(t *callState, back *list) {
	x := t.cross(t.Stream.Started())
	x.back = back
	t.crossing.ticket, t.Attempt.Elsewhere = h.crossings.issue(x), true
	t.pick.Permit, t.authorize.Use, t.ratelimit.Permit = router.Permit{}, nil, ratelimit.Permit{}
	t.Stream.SetHeader(ticketHeader, t.crossing.ticket)
	t.Stream.SetHeader(filter.CapabilityHeader, t.Info.Capability)
	t.Stream.SetHeader(originHeader, originText(&t.Client))
}

// comeHome ends what leave began.
func (h *handler) comeHome(t *callState, r *filter.Result) {
	if r.Unsent != nil {
		h.stay(t)
	} else if r.Final {
		t.crossing.taken = t.crossing.taken || h.crossings.takeBack(t)
	}
}

// stay undoes leave, for a call that did not get to the translator.
func (h *handler) stay(t *callState) {
	if h.crossings.takeBack(t) {
		h.crossings.open.Delete(t.crossing.ticket)
		t.crossing.ticket, t.Attempt.Elsewhere = "", false
		t.pick.Release(router.Outcome{})
		t.Stream.DropHeader(ticketHeader)
		t.Stream.DropHeader(originHeader)
	}
}

// cross is what the second passage takes over, in strings that outlive the first.
func (t *callState) cross(came time.Time) *crossing {
	c := t.Info
	c.User, c.Agent, c.Tool, c.Session = strings.Clone(c.User), strings.Clone(c.Agent), strings.Clone(c.Tool), strings.Clone(c.Session)
	if c.Method == call.Other { // else they are the dialects' own
		c.Path = strings.Clone(c.Path)
		c.Service, _, _ = call.SplitPath(c.Path)
	}
	shadowed := t.Shadowed
	if t.crossing.before != nil {
		came, shadowed = t.crossing.before.came, t.crossing.before.shadowed
	}
	who := tenant.Identity{Tenant: c.Tenant, Key: c.Key, Scopes: tenant.Invoke, User: c.User, Agent: c.Agent, Settings: t.Principal.Settings}
	return &crossing{
		call: c, caller: who, metered: t.Principal.Metrics, target: t.Endpoint, claim: t.pick.Permit, tries: t.Attempt.Past, named: t.Artifacts.IDs,
		decision: t.Decision.Decision, judged: t.Decision.Made, use: t.authorize.Use, approval: t.Decision.Approval, span: t.Span, trace: t.Trace, came: came, shadowed: shadowed,
		permit: t.ratelimit.Permit, errand: t.errand,
	}
}

// comeBack goes on with a call that the translator brings back, and is what its caller made
// again, but for the way in which it is said now. Its caller is known: the credential did not
// cross. One whose first passage has ended meanwhile has nobody to answer to.
type comeBack struct{ h *handler }

// Admit implements filter.Filter.
func (f comeBack) Admit(_ *filter.Call, t *callState) filter.Step {
	s := &t.crossing
	x, open := f.h.crossings.claim(s.came)
	if !open {
		s.recorded = true
		return t.Reject(filter.ShuttingDown)
	}
	s.before, t.Info, t.Artifacts.IDs = x, x.call, x.named
	t.Principal.Settings, t.Principal.Metrics = x.caller.Settings, x.metered
	t.Endpoint, t.pick.Permit, t.Attempt.Past, t.Attempt.Assigned = x.target, x.claim, x.tries, x.translated()
	t.ratelimit.Permit, t.Shadowed, t.errand = x.permit, x.shadowed, x.errand
	t.Decision.Decision, t.Decision.Made, t.authorize.Use, t.Decision.Approval = x.decision, x.judged, x.use, x.approval
	t.Span, t.Trace = x.span, x.trace
	if !x.translated() && !x.errand.take() {
		f.end(t)
		return t.Reject(filter.ShuttingDown)
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (f comeBack) Done(_ *filter.Call, t *callState, r *filter.Result) {
	f.end(t)
	if t.crossing.had() && t.errand != nil {
		t.errand.end(t.fate(r.Result))
	}
}

// end gives back what the first passage has handed over.
func (f comeBack) end(t *callState) {
	f.h.ratelimit.Release(&t.Call, &t.ratelimit)
	t.pick.Release(router.Outcome{}) // unless pick has
	f.h.authorize.Release(&t.Call, &t.authorize)
}

// translated says that a call comes back from the translator.
func (x *crossing) translated() bool { return x != nil && x.target != nil }

// takeBack gives a call that did not get to the translator what it left with.
func (c *crossings) takeBack(t *callState) (here bool) {
	if t.crossing.ticket == "" {
		return false
	}
	x, here := c.claim(t.crossing.ticket)
	if here {
		t.pick.Permit, t.authorize.Use, t.ratelimit.Permit = x.claim, x.use, x.permit
	}
	return here
}

// lengthen counts the time of a call that came back from when its caller made it.
func (x *crossing) lengthen(rec *telemetry.Record) {
	if x == nil {
		return
	}
	earlier := max(rec.Started.Sub(x.came), 0)
	rec.Started = x.came
	rec.Ended += earlier
	for _, at := range []*time.Duration{&rec.Forwarded, &rec.FirstByte} {
		if *at > 0 {
			*at += earlier
		}
	}
}

// left is where a call that has ended went to with its ticket; nil: nowhere.
func (c *crossings) left(t *callState) *crossing {
	if t.crossing.ticket == "" {
		return nil
	}
	open, _ := c.open.LoadAndDelete(t.crossing.ticket)
	x, _ := open.(*crossing)
	return x
}
