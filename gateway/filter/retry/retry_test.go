package retry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/retry"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// attempted is a call that was forwarded to a backend of a fleet with an idempotent tool.
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

// TestAttempts: a call that did not start is retried once. A call that a backend may have carried out
// counts as started from then on.
func TestAttempts(t *testing.T) {
	t.Parallel()
	c, _ := attempted()
	s := &retry.State{}
	c.Attempt.Started = true
	if refusal := retry.Repeat(c, s, retry.MaxAttempts); refusal != nil || c.Attempt.Started ||
		c.Attempt.Failed != c.Endpoint {
		t.Errorf("%+v, %+v", refusal, c.Attempt)
	}
	if refusal := retry.Repeat(c, s, retry.MaxAttempts); refusal == nil || refusal.Reason != "BACKEND_UNREACHABLE" {
		t.Errorf("a third attempt: %+v", refusal)
	}
	c, _ = attempted()
	s = &retry.State{}
	retry.Again(c, s, relay.Answer{})
	if refusal := retry.Repeat(c, s, retry.MaxAttempts); refusal != nil || !c.Attempt.Started {
		t.Errorf("%+v, %+v", refusal, c.Attempt)
	}
}

// TestNoBackoff: without a pushback the next attempt follows at once.
func TestNoBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, stream := attempted()
		if step := (retry.Filter{}).Admit(c, &retry.State{}); step != filter.Continue || stream.Waits() {
			t.Errorf("step %d", step)
		}
	})
}

// A call of an idempotent tool whose connection was lost is made once more, and no third time.
func Example() {
	c, _ := attempted()
	s := &retry.State{}
	for retry.Again(c, s, relay.Answer{}) {
		fmt.Println("again", retry.Repeat(c, s, retry.MaxAttempts) == nil)
	}
	// Output: again true
}
