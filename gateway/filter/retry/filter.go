package retry

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// MaxAttempts is the maximum number of attempts of a call that may be carried out twice. A call that provably did not
// start makes as many, and then one at each untried backend, at most MostAttempts in total.
const (
	MaxAttempts  = 2
	MostAttempts = 100
)

// maxRetryWait is the maximum wait for a second attempt that a backend may request. If a response requests more, it is
// sent to the client, which may wait as well.
const maxRetryWait = time.Second

// State is the retry state of a call.
type State struct {
	wait    time.Duration // before the next attempt, as the backend requested
	allowed bool          // the retry budget was charged for the next attempt
}

// Again is the retry predicate of a call that its backend may have carried out. The call is retried only if it is
// declared idempotent, and within the fleet's retry budget. A backend's pushback is honored: a delay, or no second
// attempt at all.
func Again(c *filter.Call, s *State, a relay.Answer) bool {
	if c.Endpoint == nil || c.Attempt.Past+1 >= MaxAttempts ||
		!c.Fleet.Idempotent(c.Info.Method, c.Info.Tool) {
		return false
	}
	var wait time.Duration
	if a.Given {
		asked, ok := retryWait(a)
		if !ok || asked > maxRetryWait || asked >= c.Stream.Left() || asked == 0 && !c.Fleet.HasOther(c.Endpoint) {
			return false
		}
		wait = asked
	}
	if !c.Fleet.AllowRetry() {
		return false
	}
	s.allowed, s.wait = true, wait
	return true
}

// retryWait returns the delay before a retry that a backend requests, by google.rpc.RetryInfo or
// grpc-retry-pushback-ms, whichever is longer. ok is false if the backend forbids retries.
func retryWait(a relay.Answer) (wait time.Duration, ok bool) {
	if v, has := a.Trailer("grpc-retry-pushback-ms"); has {
		ms, err := strconv.ParseInt(v, 10, 32)
		if err != nil || ms < 0 { // as gRPC clients read it (gRFC A6)
			return 0, false
		}
		wait = time.Duration(ms) * time.Millisecond
	}
	if v, has := a.Trailer("grpc-status-details-bin"); has {
		wait = max(wait, retryInfo(v))
	}
	return wait, true
}

// retryInfo returns the retry delay in a status's details; 0 means none.
func retryInfo(details string) time.Duration {
	packed, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(details, "="))
	if err != nil {
		return 0
	}
	var st spb.Status
	if proto.Unmarshal(packed, &st) != nil {
		return 0
	}
	for _, d := range st.GetDetails() {
		var info errdetails.RetryInfo
		if d.MessageIs(&info) && d.UnmarshalTo(&info) == nil {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// Repeat returns the refusal that ends a call which did not start because of unsent; nil means another attempt
// follows.
func Repeat(c *filter.Call, s *State, attempts int, unsent error) *call.Refusal {
	known := c.Route.Tried.Has(c.Endpoint)
	c.Route.Tried = c.Route.Tried.With(c.Endpoint)
	c.Span.AttemptFailed()
	paid := s.allowed
	s.allowed = false
	c.Attempt.Past++
	if !c.Fleet.Retries() {
		return filter.Unreachable(c.Fleet)
	}
	if int(c.Attempt.Past) >= attempts && (attempts < MaxAttempts || known || !further(c, unsent)) {
		return filter.Unreachable(c.Fleet)
	}
	switch {
	case paid:
	case !loads(unsent):
		c.Fleet.CountRetry()
	case !c.Fleet.AllowRetry():
		return filter.Unreachable(c.Fleet)
	}
	return nil
}

// loads reports whether a further attempt is charged to the retry budget, which protects an overloaded fleet and this
// machine. An attempt without a connection, or at a backend that is shutting down, costs nothing.
func loads(unsent error) bool {
	return errors.Is(unsent, relay.ErrLost) || errors.Is(unsent, relay.ErrRefused) ||
		errors.Is(unsent, relay.ErrQueueFull) || filter.OwnFault(unsent)
}

// further directs a call to an untried backend, and reports whether another attempt follows. The backend of a session
// is resolved again; if it is the same, the call ends.
func further(c *filter.Call, unsent error) bool {
	if c.Attempt.Progress == call.Sent || errors.Is(unsent, relay.ErrLost) || errors.Is(unsent, relay.ErrQueueFull) ||
		filter.OwnFault(unsent) || c.Attempt.Past >= MostAttempts {
		return false
	}
	other := c.Fleet.Untried(c.Route.Tried)
	if c.Pin.Backend == nil {
		c.Route.Directed = other
	}
	return other != nil
}

// Filter is the backoff: it delays a further attempt as long as the last backend requested.
type Filter struct{}

// Admit implements filter.Filter.
func (Filter) Admit(c *filter.Call, s *State) filter.Step {
	if s.wait == 0 {
		return filter.Continue
	}
	p := c.Park(tracing.ForRetry)
	time.AfterFunc(s.wait, func() { p.Resume(func() {}) })
	s.wait = 0
	return filter.Wait
}

// Done implements filter.Filter.
func (Filter) Done(*filter.Call, *State, *filter.Result) {}
