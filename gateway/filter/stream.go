package filter

import (
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// Headers are the request headers of a call.
type Headers interface {
	// Header returns the first value of a header. It is a part of the request, and must not outlive it.
	Header(name string) (value string, present bool)
	// Contradicts says whether a header is there more than once, with different values.
	Contradicts(name string) bool
	// SetHeader changes what the upstream gets.
	SetHeader(name, value string)
	// DropHeader keeps a header from the upstream, and from filters that come later.
	DropHeader(name string)
}

// Stream is what filters see of the stream that brought a call. It has no way to an upstream: the driver alone
// forwards, replies and refuses.
type Stream interface {
	Headers
	Authority() string
	Repeated() string // a header that must not be repeated, and is; "" if there is none
	Proto() bool      // the content type is gRPC's, and nothing follows it
	SetPath(path string)
	Peer() *relay.Peer
	Shard() int
	Started() time.Time
	Timeout() (asked time.Duration, present bool)
	SetDeadline(sinceStart time.Duration)
	Left() time.Duration // until the deadline; centuries without one
	Charge(*relay.Group) bool
	Join(*relay.Group)
	Limit(relay.Limits)
	TapResponse(relay.Tap)
	DoubtRefusals()
	Wait() Parked
}

// Parked is a call that waits.
type Parked interface {
	// Resume calls take, and the filter that waits then, with the shard of the call's stream locked. Where the call
	// has ended meanwhile, or was resumed before, it calls gone instead. Either may happen after Resume has returned.
	Resume(take, gone func())
}

// Pause is a call that waits, and what it waits for.
type Pause struct {
	parked Parked
	span   *tracing.Span
	what   string
}

// Park lets a call wait; its filter is to return Wait. what names the wait in the call's trace; empty means no event.
func (c *Call) Park(what string) Pause {
	p := Pause{c.Stream.Wait(), c.Span, what}
	if what != "" {
		c.Span.Wait(what)
	}
	return p
}

// Resume lets the call go on at the filter where it waits, which finds what take has left in its state. It is for
// another goroutine than the one that called Park, and may come before Admit has returned there. Where the call has
// ended meanwhile take is not called.
func (p Pause) Resume(take func()) { p.ResumeOr(take, func() {}) }

// ResumeOr is Resume that calls gone where the call has ended meanwhile. A shard may be locked: gone must not block.
func (p Pause) ResumeOr(take, gone func()) {
	p.parked.Resume(func() {
		if p.what != "" {
			p.span.Resume(p.what)
		}
		take()
	}, gone)
}
