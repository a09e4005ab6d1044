package filter

import (
	"math"
	"time"
	"unsafe"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// Call is what several filters share of one call while it passes. Each other thing that a filter remembers is its own
// state. A Call belongs to its stream from the request headers to the end, and is used again after that.
type Call struct {
	Stream    Stream
	Info      call.Call     // method and path; tenant, user and agent; capability, tool and session
	Spoken    dialect.Entry // the RPC of Stream: the translator makes another RPC of some calls
	Client    Client
	RequestID string
	Principal Principal
	Message   relay.Message // the first, while a filter looks at it
	Peeked    *Peeked       // of that message, until the call waits or has its answer; nil means it was not read

	Fleet     *router.Fleet // nil means it is not known yet
	Deadline  time.Duration // since the start; 0 before the fleet is known
	Artifacts Artifacts
	Decision  Decision
	Shadowed  string // the limit that would have rejected the call, were it in force; "" if there is none

	Pin      affinity.Answer // the backend of its session or artifact
	Endpoint *router.Backend // of the attempt; nil means none was picked yet
	Attempt  Attempt

	Span  *tracing.Span     // nil means the call is not traced
	Trace telemetry.TraceID // that it belongs to, also where it is not traced here
	Marks
	ShedBy  string            // limit for which it was shed; empty means it was not
	Outcome telemetry.Outcome // of the tool, as its answer says
	held    uint16            // see Held, in units of heldUnit: each open stream has one
	Reason  string            // of the gateway's rejection

	answer Answer
	words  []byte // the memory of strings that Keep has made
}

// heldUnit is the unit of the time for which calls wait for people, 10 min at most.
const heldUnit = 10 * time.Millisecond

// Hold notes how long the call waited for a person's answer.
func (c *Call) Hold(d time.Duration) { c.held = uint16(min(max(d/heldUnit, 0), math.MaxUint16)) }

// Held returns how long the call waited for a person's answer.
func (c *Call) Held() time.Duration { return time.Duration(c.held) * heldUnit }

// Artifacts are those that a call names, unless its Principal says that they are not known yet.
type Artifacts struct{ IDs []string }

// Marks are what filters have noted of a call.
type Marks struct {
	Keyed    bool // it has an idempotency key
	Replayed bool // it got a stored response
	Audited  bool // it has a place in the audit log
	Shed     bool // rejected, as the process has too much to do
	InFlight bool // counted so for fleet and tenant
}

// Decision is what was decided about a call.
type Decision struct {
	policy.Decision
	Made     bool
	Repeats  bool          // it has redeemed an approval for which an earlier call was made
	Approval string        // its id, or of the one that is missing
	Redeemed *call.Refusal // of a call with an idempotency key whose approval is used: by an earlier one, perhaps
}

// Attempt is what filters share of a call's attempts.
type Attempt struct {
	Tried      *router.Tried   // where earlier ones did not start, or were lost
	Directed   *router.Backend // where this one has to go; nil means pick decides
	Past       uint8           // attempts that are over
	Mode       dialect.Mode    // how the call gets to a backend of another dialect
	Progress   call.Progress   // of the call with all its attempts. The driver owns it
	Translated bool            // into the dialect of a backend
	Address    string          // of the backend that a call of the gateway's own is for; empty means pick decides
}

// Answer is what a filter has ended its call with: a rejection, an upstream, a server in the process or a message.
type Answer struct {
	Refusal  *call.Refusal
	Upstream *relay.Upstream
	Server   Server
	Served   *Served // by Server
	Message  []byte
}

// Server answers calls in the process, by local streams.
type Server func(*relay.ServerStream) relay.Status

// Reject ends a call with the gateway's own "no".
func (c *Call) Reject(refusal *call.Refusal) Step {
	c.answer.Refusal = refusal
	return Stop
}

// ContinueUnless continues, or rejects where there is a refusal.
func (c *Call) ContinueUnless(refusal *call.Refusal) Step {
	if refusal != nil {
		return c.Reject(refusal)
	}
	return Continue
}

// Reply ends a call with one message.
func (c *Call) Reply(msg []byte) Step {
	c.answer.Message = msg
	return Stop
}

// Forward asks the driver to send a call to an upstream.
func (c *Call) Forward(u *relay.Upstream) Step {
	c.answer.Upstream = u
	return Stop
}

// Metrics are those of the call's fleet; nil means that is not known.
func (c *Call) Metrics() *telemetry.CapabilityMetrics {
	if c.Fleet == nil {
		return nil
	}
	m, _ := c.Fleet.Attached.(*telemetry.CapabilityMetrics)
	return m
}

// Answer is how the filter that stopped has ended the call. It is for the driver.
func (c *Call) Answer() *Answer { return &c.answer }

// wordsKept is how many bytes of names a call has room for: enough for most calls, and little, as an open stream holds
// it for all its life.
const wordsKept = 128

// Reset empties a call for the next one. It keeps the room for words.
func (c *Call) Reset() {
	words := c.words[:0]
	if cap(words) > wordsKept {
		words = nil
	}
	*c = Call{words: words}
}

// Keep copies a word into the call's own memory. The bytes are never moved once a string points at them: a full
// buffer is left to the strings that use it.
func (c *Call) Keep(word string) string {
	if word == "" {
		return ""
	}
	if cap(c.words)-len(c.words) < len(word) {
		most := wordsKept
		if c.words != nil {
			most = 512
		}
		c.words = make([]byte, 0, max(most, 2*len(word)))
	}
	at := len(c.words)
	c.words = append(c.words, word...)
	return unsafe.String(&c.words[at], len(word))
}

// Scratch is memory of the call's, to be used until the next Keep.
func (c *Call) Scratch() []byte { return c.words[len(c.words):] }

// View is bytes as a string, which must not outlive them or see them changed.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
