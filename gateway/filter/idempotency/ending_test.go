package idempotency

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
)

// TestEndings: a response is stored only if the backend ended the call with it. A repeat runs again only if nothing of
// the call was sent.
func TestEndings(t *testing.T) {
	t.Parallel()
	const sent, begun = time.Millisecond, 2 * time.Millisecond
	for name, test := range map[string]struct {
		unstarted bool // neither the last attempt nor an earlier one may have run
		result    relay.Result
		how       idempotency.Outcome
		answered  bool
	}{
		"answered": {result: relay.Result{Upstream: true, Forwarded: sent, FirstByte: begun}, how: idempotency.Executed,
			answered: true},
		"refused by the backend": {result: relay.Result{Upstream: true, Forwarded: sent, FirstByte: begun,
			Code: uint32(codes.NotFound)}, how: idempotency.Executed},
		"unavailable after the first byte": {result: relay.Result{Upstream: true, Forwarded: sent, FirstByte: begun,
			Code: uint32(codes.Unavailable)}, how: idempotency.InDoubt},
		"the backend's deadline": {result: relay.Result{Upstream: true, Forwarded: sent, FirstByte: begun,
			Code: uint32(codes.DeadlineExceeded)}, how: idempotency.InDoubt},
		"canceled by the backend": {result: relay.Result{Upstream: true, Forwarded: sent, FirstByte: begun,
			Code: uint32(codes.Canceled)}, how: idempotency.InDoubt},
		"no answer": {result: relay.Result{Upstream: true, Forwarded: sent, Code: uint32(codes.Internal)},
			how: idempotency.InDoubt},
		"ended by the gateway": {result: relay.Result{Forwarded: sent, FirstByte: begun, Code: uint32(codes.Internal)},
			how: idempotency.InDoubt},
		"nothing was sent": {result: relay.Result{Code: uint32(codes.Unavailable)}, how: idempotency.NotStarted},
		"nothing ran": {unstarted: true, result: relay.Result{Upstream: true, Forwarded: sent, FirstByte: begun,
			Code: uint32(codes.Unavailable)}, how: idempotency.NotStarted},
	} {
		c := &filter.Call{}
		if !test.unstarted {
			c.Attempt.Progress = call.Sent
		}
		if got := endingOf(c, &test.result); got.how != test.how || got.answered != test.answered {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
