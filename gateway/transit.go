package gateway

import (
	"sync"
	"time"
	"unsafe"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

// transit is what is remembered of one call while it passes. It is the Value of the
// call's stream, belongs to it from Headers to Done, and is used again after that.
type transit struct {
	stream   *relay.Stream
	walk     walk // along the filters
	call     call.Call
	spoken   dialect.Entry                // what it is in this stream: the translator makes another RPC of some calls
	engine   *engine.Method               // of OpenParallax; nil: it is of something else
	pathless bool                         // its path is none of gRPC
	origin   origin                       // where it comes from
	request  string                       // x-request-id
	settings *tenant.Settings             // of the call's tenant; nil: there are none
	tenant   *telemetry.TenantMetrics     // of who calls; nil for the gateway itself, and where that is not known
	message  relay.Message                // its first, while a filter looks at it
	first    *first                       // what that says, until the call waits or has its answer; nil: it was not read
	fleet    *router.Fleet                // nil: it is not known yet
	metrics  *telemetry.CapabilityMetrics // the fleet's
	limit    time.Duration                // the call's deadline, since its start; 0 before its fleet is known
	errand   *errand                      // what is done for its idempotency key; nil: it has none
	target   *router.Backend              // nil: none was chosen yet
	span     *tracing.Span                // nil: the call is not traced
	trace    telemetry.TraceID            // that it belongs to, also where it is not traced here
	shed     bool                         // turned away, as the process has too much to do
	reason   string                       // why the gateway refused
	words    []byte                       // what strings of call and request point into

	// What filters remember.
	auth      authState
	overload  overloadState
	bandwidth bandwidthState
	peek      peekState
	audit     auditState
	ratelimit ratelimitState
	authorize authorizeState
	retry     retryState
	affinity  affinityState
	pick      pickState
	forward   forwardState
	crossing  crossingState
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
	s.Value, t.stream = t, s
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
	outcome, mentions := t.forward.outcome, t.forward.mentions
	*t = transit{words: words[:0], forward: forwardState{outcome: outcome, mentions: mentions}}
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

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
