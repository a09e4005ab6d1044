package idempotency

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
)

// State is the state of a call's idempotency key.
type State struct {
	Given []string // keys of the HTTP request that a front door makes the call for
	keyed *keyed   // nil means the call has no key
}

// keyed is the state of a call with an idempotency key.
type keyed struct {
	key     string
	only    *call.Refusal   // refusal if the call must not be carried out, but may have been; nil means it may be
	outcome dialect.Scanner // of the response to the client

	replayed atomic.Bool   // received a stored response
	ended    chan ending   // receives the ending of the continuing stream; capacity 1
	last     *relay.Result // result of the stream at the backend; nil means none
}

// ending is the ending of the stream that continued a call.
type ending struct {
	how      idempotency.Outcome
	answered bool // with status OK
}

// endingOf returns whether the call was carried out, by the result of its stream. A backend's response proves that it
// received the call, except for codes that proxies and servers in shutdown also use.
func endingOf(c *filter.Call, r *relay.Result) (e ending) {
	switch {
	case c.Attempt.Progress == call.NotSent || r.Forwarded == 0:
		e.how = idempotency.NotStarted
		return e
	case !r.Upstream || r.FirstByte == 0:
		return e
	}
	switch codes.Code(r.Code) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return e
	}
	return ending{how: idempotency.Executed, answered: r.Code == 0}
}

// Filter makes a Server serve calls with an idempotency key.
type Filter struct{ server *Server }

// New returns a Filter. Without a server, calls with a key are rejected, see KeyFilter.
func New(s *Server) Filter { return Filter{s} }

// Admit implements filter.Filter.
func (f Filter) Admit(c *filter.Call, s *State) filter.Step {
	k := s.keyed
	if k == nil {
		return filter.Continue
	}
	k.only = c.Redeemed
	if k.outcome.Reset(c.Spoken.Method, c.Spoken.Dialect) {
		c.Stream.TapResponse(&k.outcome)
	}
	step := c.ServeBy(f.server.server, k)
	c.Answer().Served.SetProgress(call.Answered) // an earlier call with the key may have been carried out
	return step
}

// Continued reports to the Server whether the call was carried out.
func (Filter) Continued(c *filter.Call, s *State, r *relay.Result) {
	if r.Forwarded > 0 {
		s.keyed.last = r
	}
	select {
	case s.keyed.ended <- endingOf(c, r):
	default: // already reported
	}
}

// Done implements filter.Filter. A call that continued without its client is recorded with the backend's result.
func (Filter) Done(c *filter.Call, s *State, r *filter.Result) {
	switch k := s.keyed; {
	case k == nil || !r.Final:
	case k.replayed.Load():
		c.Replayed, c.Outcome = true, filter.OutcomeOf(&k.outcome)
	case k.last != nil && r.Failure == relay.ClientGone:
		r.Code, r.Failure = k.last.Code, k.last.Failure
	}
}
