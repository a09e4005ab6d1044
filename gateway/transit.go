package gateway

import (
	"context"
	"sync"
	"time"
	"unsafe"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/observe"
	"github.com/capgate/capgate/internal/observe/tracing"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/strictproto"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/limits"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// transit is what is remembered of one call while it passes. It is the Value of the
// call's stream, belongs to it from Headers to Done, and is used again after that.
type transit struct {
	call     call.Call
	spoken   dialect.Entry    // what it is in this stream: the translator makes another RPC of some calls
	settings *tenant.Settings // of the call's tenant; nil: there are none
	permit   limits.Permit    // by its tenant's limits
	fleet    *router.Fleet
	target   *router.Backend
	claim    router.Claim   // on target
	waiter   *router.Waiter // for a place at a backend of a limited fleet
	limit    time.Duration  // the call's deadline, since its start; 0 before its fleet is known
	mode     dialect.Mode
	tries    int
	again    bool           // the next try is in the budget already
	wait     time.Duration  // before it, as the backend asked
	engine   *engine.Method // of OpenParallax; nil: it is of something else
	pathless bool           // its path is none of gRPC
	own      bool           // for a service of the gateway's own
	ours     bool           // made by the gateway itself, for its own purposes
	scanned  bool           // outcome sees the response
	outcome  dialect.Scanner
	place    affinity.Answer            // where the call has to go
	named    []string                   // the artifacts that it names
	unnamed  bool                       // they are not known yet: what it brings takes long to read
	only     *tenant.Download           // the one thing that it may be; nil: anything
	decision policy.Decision            // whether it may run
	judged   bool                       // decision was made
	quit     context.CancelFunc         // of what is being found out for it; nil: nothing was
	use      *approvals.Use             // of a person's consent to it
	approval string                     // the id of that, or of the one that is missing
	started  bool                       // a backend may have begun to carry it out
	lost     bool                       // one had it that may have, before the try that is made now
	mentions *dialect.Mentions          // sees the response; nil until it is needed
	metrics  *observe.CapabilityMetrics // the fleet's, once it is known
	asserts  tenant.Asserts             // what the caller may say of itself, also in a message
	tenant   *observe.TenantMetrics     // of who calls; nil for the gateway itself, and where that is not known
	begun    bool                       // counted as in flight at both
	bounds   *tenant.Settings           // that its stream is held to; nil: none
	share    *overload.Share            // of the process, that the call has; nil: none
	shed     bool                       // turned away, as the process has too much to do
	span     *tracing.Span              // nil: the call is not traced
	trace    observe.TraceID            // that it belongs to, also where it is not traced here
	ticket   string                     // went to the translator with it; see crossings
	audited  bool                       // there is a place for its record in the audit log
	recorded bool                       // came back from there, but its ticket was claimed
	before   *crossing                  // its first passage, if it came back from there
	assigned bool                       // came back from the translator: target is where it goes
	suited   *router.Backend            // where it goes, as it was sent to one that speaks what it cannot be translated to
	moved    bool                       // it was sent elsewhere for that
	tried    *router.Backend            // where it did not start
	opening  opening                    // of a call that needs no credential
	errand   *errand                    // what is done for its idempotency key; nil: it has none
	reason   string                     // why the gateway refused
	request  string                     // x-request-id
	origin   origin                     // where it comes from
	words    []byte                     // what strings of call and request point into
}

// wordsKept is how many bytes of names a transit has room for: enough for most calls,
// and little, as an open stream holds it for all its life.
const wordsKept = 128

type transitPool struct{ pool sync.Pool }

// get begins a call: what its headers say, in strings that outlive them.
func (p *transitPool) get(s *relay.Stream) *transit {
	t, _ := p.pool.Get().(*transit)
	if t == nil {
		t = &transit{words: make([]byte, 0, wordsKept)}
	}
	s.Value = t
	t.readMethod(s)
	if id, ok := s.Header(requestIDHeader); ok {
		t.request = t.keep(id)
	}
	return t
}

func (p *transitPool) put(t *transit) {
	words := t.words
	if cap(words) > wordsKept {
		words = nil
	}
	outcome, mentions := t.outcome, t.mentions
	*t = transit{words: words[:0], outcome: outcome, mentions: mentions}
	p.pool.Put(t)
}

func transitOf(s *relay.Stream) *transit { return s.Value.(*transit) }

// keep copies a word. The bytes are never moved once a string points at them: a full
// buffer is left to the strings that use it.
func (t *transit) keep(word string) string {
	if word == "" {
		return ""
	}
	if cap(t.words)-len(t.words) < len(word) {
		t.words = make([]byte, 0, max(512, 2*len(word)))
	}
	at := len(t.words)
	t.words = append(t.words, word...)
	return unsafe.String(&t.words[at], len(word))
}

// first is what the first message says that only matters while the call's way is
// chosen. The slices are parts of the message.
type first struct {
	read       bool   // it was; else nothing is known of it
	capability string // part of the message, too
	args       []byte
	config     []byte // secrets: looked at only where that is asked for, and never kept
	legacy     []byte // the whole message, in the legacy dialect; a clone has context instead
	context    []dialect.ContextEntry
	thread     []byte
	artifact   []byte   // that is to be downloaded
	held       *holding // of deliberations, for a clone; nil: it is part of the message
}

// read takes out of the first message what the call is routed by.
func (t *transit) read(s *relay.Stream, msg []byte) (m first, refusal *call.Refusal) {
	if t.call.Method == call.DownloadOutputArtifact {
		id, err := dialect.ReadArtifactID(msg)
		if err != nil {
			return first{}, strictproto.Refuse(err, refusedDownload)
		}
		return first{artifact: id}, nil
	}
	if t.engine != nil {
		return t.readEngine(msg)
	}
	readKey := dialect.ReadKey
	if t.call.Dialect == call.Legacy {
		readKey = dialect.ReadLegacyKey
	}
	key, err := readKey(msg)
	if err != nil {
		return first{}, strictproto.Refuse(err, refusedMalformed)
	}
	if refusal := t.nameUser(s, view(key.User)); refusal != nil {
		return first{}, refusal
	}
	t.call.Tool = t.keep(view(key.Tool))
	t.call.Session = t.keep(view(key.Session))
	m = first{read: true, capability: view(key.Capability), args: key.Args, config: key.Config, thread: key.Thread}
	if t.call.Dialect == call.Legacy {
		m.legacy = msg
	}
	return m, nil
}

// keyOf is everything in a call that names its capability. message is what the first
// message says, "" before it was read.
func (t *transit) keyOf(s *relay.Stream, message string) router.Key {
	metadata, _ := s.Header(capabilityHeader)
	return router.Key{Metadata: metadata, Message: message, Authority: s.Authority(), Service: t.call.Service}
}

// Body sees the response before its caller does: it is a relay.Tap. From then on there may be state
// of the session at the backend, of which the caller may know.
func (t *transit) Body(p []byte) {
	t.place.Pinned.Used()
	if t.scanned {
		t.outcome.Body(p)
	}
}

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// done gives up the call's claim on its backend, if it has one.
func (t *transit) done(o router.Outcome) {
	t.claim.Done(o)
	t.claim = router.Claim{}
}

// recordOf is what is to be recorded of a call that ended with r.
func (t *transit) recordOf(s *relay.Stream, r *relay.Result) observe.Record {
	rec := observe.Record{
		Call: &t.call, Client: t.origin.client, Capability: t.metrics, Tenant: t.tenant, Begun: t.begun, Shard: uint32(s.Shard()), RequestID: t.request,
		Code: r.Code, Reason: t.reason, Trace: t.trace, Traced: t.span != nil, Failure: r.Failure.String(), BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		Started: r.Started, Forwarded: r.Forwarded, FirstByte: r.FirstByte, Ended: r.Ended,
	}
	rec.Shed = t.shed
	if t.judged {
		rec.Decision = observe.Decision{Made: true, Level: t.decision.Level, Verdict: t.decision.Verdict, Cached: t.decision.Cached,
			Differs: t.decision.Differs, Candidate: t.decision.Candidate, Approval: t.approval}
	}
	rec.Shadowed = t.shadowed()
	if t.target != nil && t.ticket == "" {
		rec.Backend = t.target.Addr
	}
	if t.scanned && r.Code == 0 {
		rec.Outcome = outcomes[t.outcome.Outcome()]
	}
	if t.errand != nil {
		t.errand.record(&rec)
	}
	if t.before != nil {
		t.before.lengthen(&rec)
	}
	return rec
}

// shadowed is the limit that would have refused the call, were it in force; "" if none.
func (t *transit) shadowed() string {
	if l, would := t.permit.Shadowed(); would {
		return l.String()
	}
	return ""
}

var outcomes = [...]observe.Outcome{
	dialect.OutcomeUnknown: observe.Unjudged,
	dialect.OK:             observe.Succeeded,
	dialect.ToolError:      observe.ToolError,
	dialect.CutOff:         observe.CutOff,
}
