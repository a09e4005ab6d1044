package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	ratelimitfilter "github.com/capgate/capgate/gateway/filter/ratelimit"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

// limiter answers as the test sets it.
type limiter struct {
	refusal  *call.Refusal
	unknown  int // number of answers that the limiter cannot give yet
	resumes  []func()
	released int
	refunded int
}

func (l *limiter) Take(*tenant.Settings, *call.Call, uint32, *ratelimit.Permit) (*call.Refusal, bool) {
	if l.unknown > 0 {
		l.unknown--
		return nil, false
	}
	return l.refusal, true
}

func (l *limiter) Wait(_ *ratelimit.Permit, resume func()) { l.resumes = append(l.resumes, resume) }
func (l *limiter) Release(_ uint32, _ *ratelimit.Permit)   { l.released++ }
func (l *limiter) Refund(*tenant.Settings, *call.Call)     { l.refunded++ }
func memory(bytes int64) *fairshare.Pool                   { return fairshare.New("deciding", bytes) }
func peeked(c *filter.Call, args string) *ratelimitfilter.State {
	c.SetPeeked(&filter.Peeked{Read: true, Args: []byte(args), Config: []byte("secret")})
	return &ratelimitfilter.State{}
}

func TestReject(t *testing.T) {
	t.Parallel()
	over := &call.Refusal{Kind: call.ResourceExhausted, Reason: "QUOTA"}
	c, _ := filtertest.NewCall()
	f, s := ratelimitfilter.New(&limiter{refusal: over}, memory(1<<20)), &ratelimitfilter.State{}
	if step := f.Admit(c, s); step != filter.Stop || c.Answer().Refusal != over {
		t.Errorf("step %d, %v", step, c.Answer().Refusal)
	}
}

// TestWait: a waiting call keeps its peeked fields, and releases their memory with them.
func TestWait(t *testing.T) {
	t.Parallel()
	l, pool := &limiter{unknown: 2}, memory(1<<20)
	f := ratelimitfilter.New(l, pool)
	c, stream := filtertest.NewCall()
	s := peeked(c, "{}")
	for range 2 { // it may wait repeatedly
		if step := f.Admit(c, s); step != filter.Wait || !stream.Waits() {
			t.Fatalf("step %d, waits %t", step, stream.Waits())
		}
		c.ForgetMessage() // as the driver does
		if pool.Used() == 0 {
			t.Error("the fields are held for nothing")
		}
		l.resumes[len(l.resumes)-1]()
		check.Received(t, stream.Resumed, "the resumption")
	}
	if step := f.Admit(c, s); step != filter.Continue || string(c.Fields().Args) != "{}" {
		t.Errorf("step %d, %+v", step, c.Fields())
	}
	c.ForgetMessage()
	f.Done(c, s, &filter.Result{Final: true})
	if pool.Used() != 0 || l.released != 1 {
		t.Errorf("%d bytes held, %d permits released", pool.Used(), l.released)
	}
}

// TestRepeatCountsOnce: a call that uses up the approval of an earlier one is refunded.
func TestRepeatCountsOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		repeats  bool
		progress call.Progress
		took     time.Duration
		want     int
	}{
		"an ordinary call":            {false, call.Sent, time.Second, 0},
		"a repeat":                    {true, call.Sent, time.Second, 1},
		"a repeat, answered":          {true, call.Answered, time.Second, 1},
		"a repeat that did not start": {true, call.NotSent, time.Second, 0},
		"a repeat that ended later":   {true, call.Sent, 24 * time.Hour, 0},
	} {
		l := new(limiter)
		f, s := ratelimitfilter.New(l, memory(1)), &ratelimitfilter.State{}
		c, _ := filtertest.NewCall()
		f.Admit(c, s)
		c.Decision.Repeats, c.Attempt.Progress = test.repeats, test.progress
		f.Done(c, s, &filter.Result{Final: true, Result: &relay.Result{Ended: test.took}})
		if l.refunded != test.want || l.released != 1 {
			t.Errorf("%s: %d refunds, %d permits released", name, l.refunded, l.released)
		}
	}
}

// TestEndedWhileItWaits: if a call ends while it waits, its memory is released once the limiter answers.
func TestEndedWhileItWaits(t *testing.T) {
	t.Parallel()
	l, pool := &limiter{unknown: 1}, memory(1<<20)
	f := ratelimitfilter.New(l, pool)
	c, stream := filtertest.NewCall()
	f.Admit(c, peeked(c, "{}"))
	stream.End()
	l.resumes[0]()
	if pool.Used() != 0 {
		t.Errorf("%d bytes are still held", pool.Used())
	}
}

// TestNoMemory: a call is shed if it would have to wait and there is no memory for its message.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	f := ratelimitfilter.New(&limiter{unknown: 1}, memory(1))
	c, _ := filtertest.NewCall()
	if step := f.Admit(c, peeked(c, "{}")); step != filter.Stop || c.Shed == overload.NoLimit ||
		c.Answer().Refusal.Reason != "OVERLOADED" {
		t.Errorf("step %d, %+v", step, c.Answer().Refusal)
	}
}

func TestNoLimiter(t *testing.T) {
	t.Parallel()
	f, s := ratelimitfilter.New(nil, memory(1)), &ratelimitfilter.State{}
	c, _ := filtertest.NewCall()
	if step := f.Admit(c, s); step != filter.Continue {
		t.Errorf("step %d", step)
	}
	f.Done(c, s, &filter.Result{Final: true})
}

// The tenant may make two concurrent calls. The third is rejected until another one ends.
func Example() {
	settings := &tenant.Settings{ID: "acme", Limits: tenant.Limits{Bounds: tenant.Bounds{Concurrent: 2}}}
	f := ratelimitfilter.New(&atOnce{most: 2}, memory(1<<20))
	begin := func() (end func(), admitted bool) {
		c, stream := filtertest.NewCall()
		c.Principal.Settings, c.Info.Tenant = settings, "acme"
		s := &ratelimitfilter.State{}
		step := f.Admit(c, s)
		for step == filter.Wait {
			<-stream.Resumed
			step = f.Admit(c, s)
		}
		if step == filter.Stop {
			fmt.Println(c.Answer().Refusal.Reason)
		}
		return func() { f.Done(c, s, &filter.Result{Final: true}) }, step == filter.Continue
	}
	first, _ := begin()
	begin()
	begin()
	first()
	_, admitted := begin()
	fmt.Println(admitted)
	// Output:
	// CONCURRENCY_LIMIT
	// true
}

// atOnce is a limiter of concurrent calls without a store.
type atOnce struct {
	most, running int
}

func (l *atOnce) Take(*tenant.Settings, *call.Call, uint32, *ratelimit.Permit) (*call.Refusal, bool) {
	if l.running >= l.most {
		return &call.Refusal{Kind: call.ResourceExhausted, Reason: "CONCURRENCY_LIMIT"}, true
	}
	l.running++
	return nil, true
}

func (l *atOnce) Wait(_ *ratelimit.Permit, resume func()) { go resume() }
func (*atOnce) Refund(*tenant.Settings, *call.Call)       {}
func (l *atOnce) Release(_ uint32, _ *ratelimit.Permit)   { l.running-- }
