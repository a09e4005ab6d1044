package authorize_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/router"
)

// decider returns the same decision for all calls.
type decider struct {
	verdict call.Verdict
	known   bool // the decision is cached
	refusal *call.Refusal
}

// slowDecider needs some time for each decision.
type slowDecider struct {
	decider
	takes time.Duration
}

func (d slowDecider) Fetch(ctx context.Context, c *call.Call) (policy.Decision, *call.Refusal) {
	<-time.After(d.takes)
	return d.decider.Fetch(ctx, c)
}

func (d decider) DecideAt(*call.Call, time.Time) (policy.Decision, bool) {
	return policy.Decision{Verdict: d.verdict}, d.known
}

func (d decider) Fetch(context.Context, *call.Call) (policy.Decision, *call.Refusal) {
	return policy.Decision{Verdict: d.verdict}, d.refusal
}

func (decider) DependsOnTool(string) bool                     { return false }
func (decider) Schema(_, _ string) (*toolschema.Schema, bool) { return nil, false }
func (decider) Credentials(string) *credentials.Names         { return nil }

// approver has one granted approval, "a1".
type approver struct {
	used     bool
	released chan struct{}
}

func (a *approver) Create(context.Context, *approvals.Request) (approvals.Approval, bool, *call.Refusal) {
	return approvals.Approval{ID: "a1", State: approvals.Pending}, false, nil
}

func (a *approver) Redeem(_ context.Context, id string, _ *approvals.Request) (approvals.Redemption, *call.Refusal) {
	if a.used {
		return approvals.Redemption{}, &call.Refusal{Kind: call.FailedPrecondition, Reason: "APPROVAL_USED"}
	}
	a.used = true
	return approvals.Redemption{ID: id, Tenant: "acme"}, nil
}

func (a *approver) Release(context.Context, approvals.Redemption) error {
	close(a.released)
	return nil
}

func (*approver) Wait(ctx context.Context, _, _ string) (approvals.Approval, error) {
	<-ctx.Done()
	return approvals.Approval{}, ctx.Err()
}

// toolCall returns a call of a tool whose message has been read.
func toolCall(headers ...string) (*filter.Call, *filtertest.Stream) {
	c, stream := filtertest.NewCall(headers...)
	c.Info = call.Call{Tenant: "acme", Capability: "mail", Tool: "send", Method: call.Invoke}
	c.SetPeeked(&filter.Peeked{Read: true, Args: []byte("{}")})
	return c, stream
}

// pass runs the filter for a call until it no longer waits.
func pass(t check.TB, f *authorize.Filter, c *filter.Call, stream *filtertest.Stream) (filter.Step, *authorize.State) {
	s := &authorize.State{}
	step := f.Admit(c, s)
	for step == filter.Wait {
		c.ForgetMessage() // as the driver does
		check.Received(t, stream.Resumed, "the resumption")
		step = f.Admit(c, s)
	}
	return step, s
}

func newFilter(d authorize.Decider, a authorize.Approver) (*authorize.Filter, *fairshare.Pool) {
	memory := fairshare.New("deciding", 1<<20)
	return authorize.New(authorize.Config{Decider: d, Approver: a, Memory: memory}), memory
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		decider decider
		reason  string // empty means that the call may run
	}{
		"allowed from memory":  {decider{call.Allow, true, nil}, ""},
		"blocked from memory":  {decider{call.Block, true, nil}, "TOOL_BLOCKED"},
		"allowed by the store": {decider{call.Allow, false, nil}, ""},
		"no answer":            {decider{call.Allow, false, &call.Refusal{Reason: "POLICY_UNKNOWN"}}, "POLICY_UNKNOWN"},
		"nobody can be asked":  {decider{call.Ask, true, nil}, "APPROVAL_REQUIRED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, memory := newFilter(test.decider, nil)
			c, stream := toolCall()
			step, s := pass(t, f, c, stream)
			if test.reason == "" && (step != filter.Continue || !c.Decision.Made) ||
				test.reason != "" && (step != filter.Stop || c.Answer().Refusal.Reason != test.reason) {
				t.Errorf("step %d, %+v", step, c.Answer().Refusal)
			}
			f.Done(c, s, &filter.Result{Final: true})
			if f.Close(); memory.Used() != 0 {
				t.Errorf("%d bytes are still held", memory.Used())
			}
		})
	}
}

// TestApproval: a call redeems the approval that it names. If no backend received the call, the approval is released.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{false, true} {
		a := &approver{released: make(chan struct{})}
		f, _ := newFilter(decider{call.Ask, true, nil}, a)
		c, stream := toolCall("x-approval-id", "a1")
		step, s := pass(t, f, c, stream)
		if step != filter.Continue || c.Decision.Approval != "a1" {
			t.Fatalf("step %d, %+v", step, c.Answer().Refusal)
		}
		if started {
			c.Attempt.Progress = call.Sent
		}
		f.Done(c, s, &filter.Result{Final: true})
		f.Close()
		released := false
		select {
		case <-a.released:
			released = true
		default:
		}
		if released == started {
			t.Errorf("started %t, released %t", started, released)
		}
	}
}

// TestWaitAfterASlowDecision: a call waits for approval until half a second before its deadline, or, if its client
// states no wait, for three quarters of its time, however long the decision took.
func TestWaitAfterASlowDecision(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers []string
		takes   time.Duration
		want    time.Duration // from the begin of the call to its rejection
	}{
		"at once":            {[]string{"x-approval-wait", "60"}, 0, 9500 * time.Millisecond},
		"slow":               {[]string{"x-approval-wait", "60"}, 3 * time.Second, 9500 * time.Millisecond},
		"a short wait":       {[]string{"x-approval-wait", "2"}, 3 * time.Second, 5 * time.Second},
		"no time is left":    {[]string{"x-approval-wait", "60"}, 9800 * time.Millisecond, 9800 * time.Millisecond},
		"a client is silent": {nil, 3 * time.Second, 7500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				f, _ := newFilter(slowDecider{decider{call.Ask, false, nil}, test.takes}, &approver{})
				c, stream := toolCall(test.headers...)
				c.Fleet = filtertest.Fleet(router.FleetConfig{ApprovalWait: time.Minute})
				began := time.Now()
				stream.Deadline = 10 * time.Second
				step, _ := pass(t, f, c, stream)
				if took := time.Since(began); took != test.want || step != filter.Stop ||
					c.Answer().Refusal.Reason != "APPROVAL_REQUIRED" {
					t.Errorf("after %v: step %d, %+v", took, step, c.Answer().Refusal)
				}
				f.Close()
			})
		})
	}
}

// TestUsedApprovalOfAKey: a repeat with an idempotency key passes with the approval that its first call has used.
// Whether it may run is decided later.
func TestUsedApprovalOfAKey(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{false, true} {
		f, _ := newFilter(decider{call.Ask, true, nil}, &approver{used: true})
		c, stream := toolCall("x-approval-id", "a1")
		c.Keyed = keyed
		if step, _ := pass(t, f, c, stream); keyed != (step == filter.Continue) ||
			keyed != (c.Redeemed != nil) {
			t.Errorf("keyed %t: step %d, %+v", keyed, step, c.Decision)
		}
		f.Close()
	}
}

// TestEndedWhileItIsChecked: an approval that is redeemed for a call that has already ended is released.
func TestEndedWhileItIsChecked(t *testing.T) {
	t.Parallel()
	a := &approver{released: make(chan struct{})}
	f, memory := newFilter(decider{call.Ask, true, nil}, a)
	c, stream := toolCall("x-approval-id", "a1")
	stream.End() // before the approver responds
	if step := f.Admit(c, &authorize.State{}); step != filter.Wait {
		t.Fatalf("step %d", step)
	}
	check.Received(t, a.released, "the release")
	if f.Close(); memory.Used() != 0 {
		t.Errorf("%d bytes are still held", memory.Used())
	}
}

// A call that requires approval is rejected with the id of its pending approval.
func Example() {
	f, _ := newFilter(decider{call.Ask, true, nil}, &approver{})
	defer f.Close()
	c, stream := toolCall()
	pass(&testing.B{}, f, c, stream)
	r := c.Answer().Refusal
	fmt.Println(r.Reason, r.Metadata["approval"])
	// Output: APPROVAL_REQUIRED a1
}
