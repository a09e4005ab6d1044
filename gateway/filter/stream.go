package filter

import (
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// Headers gives access to the request headers of a call.
type Headers interface {
	// Header returns the first value of a header. It is a part of the request, and must not outlive it.
	Header(name string) (value string, present bool)
	// Contradicts reports whether a header is present more than once, with different values.
	Contradicts(name string) bool
	// SetHeader changes a header for the upstream.
	SetHeader(name, value string)
	// DropHeader removes a header for the upstream and for later filters.
	DropHeader(name string)
}

// Stream is the part of a call's stream that filters may use. It has no access to an upstream: only the driver
// forwards, replies and refuses.
type Stream interface {
	Headers
	Authority() string
	Repeated() string // a repeated header that must not be repeated; empty means none
	Proto() bool      // the content type is exactly gRPC with protobuf
	SetPath(path string)
	Peer() *relay.Peer
	Shard() int
	Started() time.Time
	Now() time.Time // the start of the relay's turn
	Timeout() (asked time.Duration, present bool)
	SetDeadline(sinceStart time.Duration)
	Left() time.Duration // until the deadline; centuries without a deadline
	Charge(*relay.Group) bool
	Join(*relay.Group) (behind time.Duration)
	Limit(relay.Limits)
	TapResponse(relay.Tap)
	DoubtRefusals()
	Wait() Parked
}

// Parked is a waiting call.
type Parked interface {
	// Resume calls take, and then the waiting filter, with the shard of the call's stream locked. If the call has
	// ended meanwhile, or was already resumed, it calls gone instead. Both may happen after Resume has returned.
	Resume(take, gone func())
}

// Pause is a waiting call with the event that it waits for.
type Pause struct {
	parked Parked
	span   *tracing.Span
	what   string
}

// Park makes a call wait. The filter must return Wait. what names the wait in the call's trace; empty means no event.
func (c *Call) Park(what string) Pause {
	p := Pause{c.Stream.Wait(), c.Span, what}
	if what != "" {
		c.Span.Wait(what)
	}
	return p
}

// Resume continues the call at the filter where it waits. take stores the result in the filter's state; it is not
// called if the call has ended meanwhile. Resume must be called from another goroutine than Park, and may be called
// before Admit has returned.
func (p Pause) Resume(take func()) { p.ResumeOr(take, func() {}) }

// ResumeOr is Resume, but calls gone if the call has ended meanwhile. A shard may be locked, so gone must not block.
func (p Pause) ResumeOr(take, gone func()) {
	p.parked.Resume(func() {
		if p.what != "" {
			p.span.Resume(p.what)
		}
		take()
	}, gone)
}
