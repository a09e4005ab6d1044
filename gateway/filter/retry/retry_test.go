package retry_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/retry"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// attempted returns a call that was forwarded to a backend of a fleet with an idempotent tool.
func attempted() (*filter.Call, *filtertest.Stream) {
	c, stream := filtertest.NewCall()
	c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1", "b:1"), Idempotent: []string{"get"}})
	c.Info.Method, c.Info.Tool = call.Invoke, "get"
	c.Endpoint, stream.Deadline = c.Fleet.Backends[0], time.Minute
	return c, stream
}

func TestPredicate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*filter.Call)
		want   bool
	}{
		"idempotent":      {func(*filter.Call) {}, true},
		"another tool":    {func(c *filter.Call) { c.Info.Tool = "set" }, false},
		"no attempt left": {func(c *filter.Call) { c.Attempt.Past = retry.MaxAttempts - 1 }, false},
		"no backend":      {func(c *filter.Call) { c.Endpoint = nil }, false},
	} {
		c, _ := attempted()
		if test.change(c); retry.Again(c, &retry.State{}, relay.Answer{}) != test.want {
			t.Errorf("%s: not %t", name, test.want)
		}
	}
}

// TestAnswers: the pushback in a backend's response decides whether and when the call is retried.
func TestAnswers(t *testing.T) {
	t.Parallel()
	answer := func(trailers ...string) relay.Answer {
		var fields []hpack.Field
		for i := 0; i < len(trailers); i += 2 {
			fields = append(fields, hpack.Field{Name: trailers[i], Value: trailers[i+1]})
		}
		return relay.NewAnswer(fields...)
	}
	const pushback = "grpc-retry-pushback-ms"
	for name, test := range map[string]struct {
		answer relay.Answer
		left   time.Duration // until the deadline
		alone  bool          // the fleet has one backend
		spent  bool          // the retry budget is exhausted
		want   bool
		wait   time.Duration
	}{
		"without a wish":            {answer: answer(), want: true},
		"without a wish or another": {answer: answer(), alone: true},
		"after a pushback":          {answer: answer(pushback, "200"), want: true, wait: 200 * time.Millisecond},
		"after a pushback, alone": {answer: answer(pushback, "200"), alone: true, want: true,
			wait: 200 * time.Millisecond},
		"a pushback of a second":        {answer: answer(pushback, "1000"), want: true, wait: time.Second},
		"a pushback of more":            {answer: answer(pushback, "1001")},
		"a pushback up to the deadline": {answer: answer(pushback, "500"), left: 500 * time.Millisecond},
		"a pushback before the deadline": {answer: answer(pushback, "499"), left: 500 * time.Millisecond, want: true,
			wait: 499 * time.Millisecond},
		"a pushback for ever":          {answer: answer(pushback, "-1")},
		"a pushback that is no number": {answer: answer(pushback, "soon")},
		"a delay in the details": {answer: answer("grpc-status-details-bin", delay(t, 300*time.Millisecond)),
			want: true, wait: 300 * time.Millisecond},
		"a long delay in the details": {answer: answer("grpc-status-details-bin", delay(t, time.Minute), pushback,
			"1")},
		"details that are none": {answer: answer("grpc-status-details-bin", "?"), want: true},
		"the budget is spent":   {answer: answer(), spent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				c, stream := attempted()
				cfg := router.FleetConfig{Backends: router.Addrs("a:1", "b:1"), Idempotent: []string{"get"}}
				if test.alone {
					cfg.Backends = router.Addrs("a:1")
				}
				if test.spent {
					cfg.Retries = router.Retries{Share: -1, Floor: -1}
				}
				c.Fleet = filtertest.Fleet(cfg)
				c.Endpoint, stream.Deadline = c.Fleet.Backends[0], cmp.Or(test.left, time.Minute)
				s := &retry.State{}
				if got := retry.Again(c, s, test.answer); got != test.want || !got {
					if got != test.want {
						t.Errorf("again: %t", got)
					}
					return
				}
				began := time.Now()
				if (retry.Filter{}).Admit(c, s) == filter.Wait {
					<-stream.Resumed
					if step := (retry.Filter{}).Admit(c, s); step != filter.Continue {
						t.Errorf("after it has waited: step %d", step)
					}
				}
				if waited := time.Since(began); waited != test.wait {
					t.Errorf("the call waited %v, want %v", waited, test.wait)
				}
			})
		})
	}
}

// delay returns a status with a RetryInfo, encoded as in trailers.
func delay(t *testing.T, d time.Duration) string {
	t.Helper()
	st, err := status.New(codes.Unavailable, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	check.Must(t, err)
	packed, err := proto.Marshal(st.Proto())
	check.Must(t, err)
	return base64.RawStdEncoding.EncodeToString(packed)
}

// TestEachBackendOnce: a call that did not start is tried at each backend, unless this machine is the cause or the call
// may have run.
func TestEachBackendOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unsent   error
		progress call.Progress
		floor    int
		want     int // number of attempts
	}{
		"refused":             {syscall.ECONNREFUSED, call.NotSent, -1, 4},
		"going away":          {relay.ErrGoAway, call.NotSent, -1, 4},
		"a refused stream":    {relay.ErrRefused, call.NotSent, 1, 4},
		"without a budget":    {relay.ErrRefused, call.NotSent, -1, 1},
		"lost":                {relay.ErrLost, call.Sent, 1, 2},
		"lost before":         {syscall.ECONNREFUSED, call.Sent, 1, 2},
		"no descriptor":       {syscall.EMFILE, call.NotSent, 1, 2},
		"too many in a queue": {relay.ErrQueueFull, call.NotSent, 1, 2},
	} {
		c, _ := attempted()
		c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1", "b:1", "c:1", "d:1"),
			Retries: router.Retries{Share: -1, Floor: test.floor}})
		c.Attempt.Progress = test.progress
		got, at := 1, c.Fleet.Backends
		for c.Endpoint = at[0]; retry.Repeat(c, &retry.State{}, retry.MaxAttempts, test.unsent) == nil; got++ {
			if c.Endpoint = at[1]; c.Route.Directed != nil {
				c.Endpoint = c.Route.Directed
			}
		}
		if got != test.want {
			t.Errorf("%s: %d attempts, want %d", name, got, test.want)
		}
	}
}

// TestRetriesThatAreOff: a call of a fleet without retries makes one attempt, however it ends.
func TestRetriesThatAreOff(t *testing.T) {
	t.Parallel()
	for _, unsent := range []error{syscall.ECONNREFUSED, relay.ErrGoAway, relay.ErrRefused, relay.ErrLost} {
		c, _ := attempted()
		c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1", "b:1"), Idempotent: []string{"get"},
			Retries: router.Retries{Share: -1, Floor: -1, Off: true}})
		if refusal := retry.Repeat(c, &retry.State{}, retry.MaxAttempts, unsent); refusal == nil {
			t.Errorf("%v: another attempt", unsent)
		}
	}
}

// TestAttempts: with two backends, a call that did not start is retried at the other one.
func TestAttempts(t *testing.T) {
	t.Parallel()
	c, _ := attempted()
	s := &retry.State{}
	if refusal := retry.Repeat(c, s, retry.MaxAttempts, syscall.ECONNREFUSED); refusal != nil ||
		!c.Route.Tried.Has(c.Endpoint) {
		t.Errorf("%+v, %+v", refusal, c.Attempt)
	}
	if refusal := retry.Repeat(c, s, retry.MaxAttempts, syscall.ECONNREFUSED); refusal == nil ||
		refusal.Reason != "BACKEND_UNREACHABLE" {
		t.Errorf("a third attempt: %+v", refusal)
	}
	c, _ = attempted()
	s = &retry.State{}
	retry.Again(c, s, relay.Answer{})
	if refusal := retry.Repeat(c, s, retry.MaxAttempts, relay.ErrLost); refusal != nil {
		t.Errorf("%+v, %+v", refusal, c.Attempt)
	}
	c.Endpoint = c.Fleet.Backends[1]
	if refusal := retry.Repeat(c, s, retry.MaxAttempts, syscall.ECONNREFUSED); refusal == nil ||
		!c.Route.Tried.Has(c.Endpoint) {
		t.Errorf("after the second attempt, which was not sent: %+v, %+v", refusal, c.Attempt)
	}
}

// TestRetriesArePaidOnce: each retry takes one unit of the budget, so that all of the budget is used.
func TestRetriesArePaidOnce(t *testing.T) {
	t.Parallel()
	fleet := filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1", "b:1"), Idempotent: []string{"get"},
		Retries: router.Retries{Share: -1, Floor: 1}})
	for i := range 10 { // the budget of ten seconds
		c, _ := attempted()
		c.Fleet, c.Endpoint = fleet, fleet.Backends[0]
		s := &retry.State{}
		if !retry.Again(c, s, relay.Answer{}) || retry.Repeat(c, s, retry.MaxAttempts, relay.ErrLost) != nil {
			t.Errorf("retry %d is not made", i)
		}
	}
}

// TestNoBackoff: without a pushback, the next attempt starts at once.
func TestNoBackoff(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		c, stream := attempted()
		if step := (retry.Filter{}).Admit(c, &retry.State{}); step != filter.Continue || stream.Waits() {
			t.Errorf("step %d, waits %t", step, stream.Waits())
		}
	})
}

// A call of an idempotent tool whose connection was lost is retried once, and not a second time.
func Example() {
	c, _ := attempted()
	s := &retry.State{}
	for retry.Again(c, s, relay.Answer{}) {
		fmt.Println("again", retry.Repeat(c, s, retry.MaxAttempts, relay.ErrLost) == nil)
	}
	// Output: again true
}
