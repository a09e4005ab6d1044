package filter

import (
	"math"
	"time"
	"unsafe"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/router"
)

// Call is the part of a call's state that several filters share. Everything else is the state of a single filter. A
// Call belongs to its stream from the request headers to the end, and is reused after that. Each open stream holds
// one: what is only needed before the response starts belongs to its Opening.
type Call struct {
	*Opening  // nil while the response runs
	Stream    Stream
	Info      call.Call // method and path; tenant, user and agent; capability, tool and session
	Client    Client
	RequestID string
	Principal Principal

	Fleet    *router.Fleet // nil until it is resolved
	Deadline time.Duration // since the start; 0 until the fleet is resolved
	Decision Decision

	Endpoint *router.Backend // of the attempt; nil until one is picked

	Span  *tracing.Span     // nil means the call is not traced
	Trace telemetry.TraceID // trace of the call, also if this gateway does not trace it
	Marks
	Attempt Attempt
	Outcome telemetry.Outcome // of the tool, from the response
	kept    uint8             // used bytes of words
	held    uint16            // see Held, in units of heldUnit; small because each open stream has one
	Reason  string            // of the gateway's rejection

	words *[wordsKept]byte // memory of the first strings that Keep returns; nil until needed
}

// heldUnit is the resolution of Held, which is at most 10 min.
const heldUnit = 10 * time.Millisecond

// Hold records how long the call waited for a person's answer.
func (c *Call) Hold(d time.Duration) { c.held = uint16(min(max(d/heldUnit, 0), math.MaxUint16)) }

// Held returns how long the call waited for a person's answer.
func (c *Call) Held() time.Duration { return time.Duration(c.held) * heldUnit }

// Marks holds what filters have recorded about a call.
type Marks struct {
	Keyed    bool // has an idempotency key
	Replayed bool // received a stored response
	Audited  bool // has a reservation in the audit log
	InFlight bool // counted as in flight for its fleet and tenant
	Own      bool // made by the gateway itself
	Feature  bool // a front door has checked what it leads to as a feature of an MCP server

	Shed   overload.Limit // for which overload rejected the call
	shadow uint8          // see Shadowed; the limit and one more, 0 means none
}

// Shadow records the limit that would have rejected the call without shadow mode.
func (m *Marks) Shadow(limit call.Limit) { m.shadow = uint8(limit) + 1 }

// Shadowed returns the name of the limit of Shadow, or "".
func (m *Marks) Shadowed() string {
	if m.shadow == 0 {
		return ""
	}
	return call.Limit(m.shadow - 1).String()
}

// Decision is the authorization decision of a call.
type Decision struct {
	policy.Decision
	Made     bool
	Repeats  bool   // the call has redeemed an approval that was created for an earlier call
	Approval string // id of the approval that was used or is missing
}

// Attempt is the state of a call's attempts that filters share.
type Attempt struct {
	Past       uint8         // number of finished attempts
	Mode       dialect.Mode  // conversion for a backend of another dialect
	Progress   call.Progress // of the call with all its attempts; owned by the driver
	Translated bool          // to the dialect of a backend
}

// Answer is the way in which a filter ended its call: by a rejection, an upstream, a server in the process or a
// message.
type Answer struct {
	Refusal  *call.Refusal
	Upstream *relay.Upstream
	Server   Server
	Served   *Served // the call, for Server
	Message  []byte
}

// Server serves calls in the process, over local streams.
type Server func(*relay.ServerStream) relay.Status

// Reject ends a call with a refusal of the gateway.
func (c *Call) Reject(refusal *call.Refusal) Step {
	c.answer.Refusal = refusal
	return Stop
}

// ContinueUnless rejects the call if refusal is not nil, and continues otherwise.
func (c *Call) ContinueUnless(refusal *call.Refusal) Step {
	if refusal != nil {
		return c.Reject(refusal)
	}
	return Continue
}

// Reply ends a call with a single response message.
func (c *Call) Reply(msg []byte) Step {
	c.answer.Message = msg
	return Stop
}

// Forward makes the driver send a call to an upstream.
func (c *Call) Forward(u *relay.Upstream) Step {
	c.answer.Upstream = u
	return Stop
}

// Metrics returns the metrics of the call's fleet; nil if the fleet is not known.
func (c *Call) Metrics() *telemetry.CapabilityMetrics {
	if c.Fleet == nil {
		return nil
	}
	m, _ := c.Fleet.Attached.(*telemetry.CapabilityMetrics)
	return m
}

// Answer returns how the filter that stopped has ended the call. Only the driver may call it.
func (c *Call) Answer() *Answer { return &c.answer }

// wordsKept is the memory of a call for strings, in bytes. It is enough for most calls, and small because an open
// stream holds it for its lifetime.
const wordsKept = 128

// Reset clears a call for reuse. It keeps the Opening, and the memory for strings.
func (c *Call) Reset() { *c = Call{Opening: c.Opening, words: c.words} }

// Keep copies a string into the call's own memory. The bytes never move once a string refers to them: a full buffer is
// left to its strings, and a new one is allocated.
func (c *Call) Keep(word string) string {
	if word == "" {
		return ""
	}
	if c.words == nil {
		c.words = new([wordsKept]byte)
	}
	if at := int(c.kept); len(word) <= wordsKept-at {
		c.kept += uint8(copy(c.words[at:], word))
		return View(c.words[at:c.kept])
	}
	if cap(c.more)-len(c.more) < len(word) {
		c.more = make([]byte, 0, max(4*wordsKept, 2*len(word)))
	}
	at := len(c.more)
	c.more = append(c.more, word...)
	return View(c.more[at:])
}

// Scratch returns memory of the call, which is valid until the next Keep.
func (c *Call) Scratch() []byte {
	if c.words == nil {
		return nil
	}
	return c.words[c.kept:c.kept]
}

// View returns bytes as a string. The bytes must not change during the lifetime of the string.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
