package gateway

import (
	"encoding/base64"
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

// maxTries is how many backends are asked for a call that provably did not start, or
// that may be carried out twice.
const maxTries = 2

// maxRetryWait is how long a call waits here for its second try when the backend asks
// for it. What asks for more goes to the caller, who may wait as well.
const maxRetryWait = time.Second

// retryState is what is remembered of attempts.
type retryState struct {
	again bool          // the next one is in the budget already
	wait  time.Duration // before it, as the backend asked
	lost  bool          // one had the call that may have carried it out, before the attempt that is made now
}

// Again says whether a call that its backend may have carried out is made once more:
// only one that may be carried out twice, and within the fleet's budget. An answer
// that names a time before which there should be no second try is honoured; so is
// one that wants none.
func (h *handler) Again(s *relay.Stream, a relay.Answer) bool {
	t := callOf(s)
	if t.Endpoint == nil || t.crossing.ticket != "" || t.Attempt.Past+1 >= maxTries || !t.Fleet.Idempotent(t.Info.Method, t.Info.Tool) {
		return false
	}
	var wait time.Duration
	if a.Given {
		asked, ok := retryWait(a)
		if !ok || asked > maxRetryWait || asked >= s.Left() || asked == 0 && !t.Fleet.HasOther(t.Endpoint) {
			return false
		}
		wait = asked
	}
	if !t.Fleet.AllowRetry() {
		return false
	}
	t.retry.again, t.retry.wait, t.retry.lost = true, wait, true
	return true
}

// retryWait is how long a backend wants callers to wait before they try again, by
// google.rpc.RetryInfo or grpc-retry-pushback-ms, whichever is longer; not ok when it
// wants no second try.
func retryWait(a relay.Answer) (wait time.Duration, ok bool) {
	if v, has := a.Trailer("grpc-retry-pushback-ms"); has {
		ms, err := strconv.ParseInt(v, 10, 32)
		if err != nil || ms < 0 { // as gRPC's clients read it (gRFC A6)
			return 0, false
		}
		wait = time.Duration(ms) * time.Millisecond
	}
	if v, has := a.Trailer("grpc-status-details-bin"); has {
		wait = max(wait, retryInfo(v))
	}
	return wait, true
}

// retryInfo is the delay in a status's details; 0 if there is none.
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

// repeat says whether a call that did not start makes another attempt; nil: it does.
func (h *handler) repeat(t *callState, _ error) *call.Refusal {
	s := &t.retry
	t.Attempt.Failed = t.Endpoint
	t.Span.AttemptFailed()
	allowed := s.again
	t.Attempt.Started = s.lost
	s.again = false
	if t.Attempt.Past++; t.Attempt.Past >= t.walk.list.attempts || !allowed && !t.Fleet.AllowRetry() {
		return filter.Unreachable(t.Fleet)
	}
	return nil
}

// backoff has a further attempt wait as long as the backend of the last one asked for.
type backoff struct{ h *handler }

// Admit implements filter.Filter.
func (f backoff) Admit(t *filter.Call, s *retryState) filter.Step {
	if s.wait == 0 {
		return filter.Continue
	}
	p := t.Park(tracing.ForRetry)
	time.AfterFunc(s.wait, func() { p.Resume(func() {}) })
	s.wait = 0
	return filter.Wait
}

// Done implements filter.Filter.
func (backoff) Done(*filter.Call, *retryState, *filter.Result) {}
