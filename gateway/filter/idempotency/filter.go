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

// State is what is remembered of a call's idempotency key.
type State struct {
	Given []string // the keys of the request that a front door makes the call for
	keyed *keyed   // nil means the call has no key
}

// keyed is a call with an idempotency key.
type keyed struct {
	key     string
	only    *call.Refusal   // it may not be carried out, but may have been; nil means it may
	outcome dialect.Scanner // of the response that the caller gets

	replayed atomic.Bool   // it got a stored response
	ended    chan ending   // has room for one: how the stream ended that continued it
	last     *relay.Result // of the stream at the backend; nil means there was none
}

// ending is how the stream ended that continued a call.
type ending struct {
	how      idempotency.Outcome
	answered bool // with OK
}

// endingOf returns whether the call was carried out, by the result of its stream. A backend's answer proves that it
// got the call, except for the codes that proxies and servers in shutdown use as well.
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

// Filter has calls with an idempotency key served by a Server.
type Filter struct{ server *Server }

// New returns a Filter. Without a server no call may have a key, see KeyFilter.
func New(s *Server) Filter { return Filter{s} }

// Admit implements filter.Filter.
func (f Filter) Admit(c *filter.Call, s *State) filter.Step {
	k := s.keyed
	if k == nil {
		return filter.Continue
	}
	k.only = c.Decision.Redeemed
	if k.outcome.Reset(c.Spoken.Method, c.Spoken.Dialect) {
		c.Stream.TapResponse(&k.outcome)
	}
	step := c.ServeBy(f.server.server, k)
	c.Answer().Served.SetProgress(call.Answered) // the call with its key may be an earlier one
	return step
}

// Continued tells the Server whether the call was carried out.
func (Filter) Continued(c *filter.Call, s *State, r *relay.Result) {
	if r.Forwarded > 0 {
		s.keyed.last = r
	}
	select {
	case s.keyed.ended <- endingOf(c, r):
	default: // it was told before
	}
}

// Done implements filter.Filter. A call that went on without its caller has ended as its backend says.
func (Filter) Done(c *filter.Call, s *State, r *filter.Result) {
	switch k := s.keyed; {
	case k == nil || !r.Final:
	case k.replayed.Load():
		c.Replayed, c.Outcome = true, filter.OutcomeOf(&k.outcome)
	case k.last != nil && r.Failure == relay.ClientGone:
		r.Code, r.Failure = k.last.Code, k.last.Failure
	}
}
