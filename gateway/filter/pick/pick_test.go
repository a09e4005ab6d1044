package pick_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/pick"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

func fleet(backends ...string) *router.Fleet {
	return filtertest.Fleet(router.FleetConfig{Backends: router.Addrs(backends...)})
}

// TestWhere: the backend to which an attempt is directed takes precedence over the pin, and the pin over the load.
func TestWhere(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.NewCall()
	c.Fleet = fleet("a:1", "b:1", "c:1")
	var f pick.Filter
	at := func() string {
		s := &pick.State{}
		if step := f.Admit(c, s); step != filter.Continue {
			t.Fatalf("step %d", step)
		}
		f.Done(c, s, &filter.Result{Result: &relay.Result{}, Final: true})
		return c.Endpoint.Addr
	}
	c.Pin.Backend, c.Route.Directed = c.Fleet.Backends[1], c.Fleet.Backends[2]
	if got := at(); got != "c:1" || c.Route.Directed != nil {
		t.Errorf("directed: %s; then directed to %v", got, c.Route.Directed)
	}
	for range 20 {
		if got := at(); got != "b:1" {
			t.Fatalf("pinned: %s", got)
		}
	}
}

// TestSecondAttempt: the second attempt goes to another backend than the one that did not start the call.
func TestSecondAttempt(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.NewCall()
	c.Fleet = fleet("a:1", "b:1")
	var f pick.Filter
	for range 20 {
		s := &pick.State{}
		c.Endpoint = nil
		f.Admit(c, s)
		first := c.Endpoint
		f.Done(c, s, &filter.Result{Unsent: relay.ErrGoAway}) // does not count against the backend
		if f.Admit(c, s); c.Endpoint == first {
			t.Fatalf("again %s", first.Addr)
		}
		f.Done(c, s, &filter.Result{Result: &relay.Result{}, Final: true})
	}
}

// TestUnsent: an attempt that did not start ejects the backend if the backend is the cause, and not if this machine is.
// A closed port means that the backend's sessions are lost.
func TestUnsent(t *testing.T) {
	t.Parallel()
	for err, test := range map[error]struct{ ejected, gone bool }{
		syscall.ECONNREFUSED:  {true, true},
		syscall.EHOSTUNREACH:  {true, false},
		relay.ErrRefused:      {true, false},
		relay.ErrGoAway:       {false, false},
		relay.ErrQueueFull:    {false, false},
		syscall.EMFILE:        {false, false},
		syscall.ENFILE:        {false, false},
		syscall.ENOBUFS:       {false, false},
		syscall.ENOMEM:        {false, false},
		syscall.EADDRNOTAVAIL: {false, false},
	} {
		c, _ := filtertest.NewCall()
		c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1", "b:1", "c:1"),
			Ejection: router.Ejection{Failures: 1}})
		var f pick.Filter
		s := &pick.State{}
		f.Admit(c, s)
		f.Done(c, s, &filter.Result{Unsent: fmt.Errorf("connect: %w", err)})
		if got := c.Fleet.Stats().Ejected == 1; got != test.ejected || c.Endpoint.IsGone() != test.gone {
			t.Errorf("%v: ejected %t, gone %t", err, got, c.Endpoint.IsGone())
		}
	}
}

// TestOutcomes: calls that a backend failed eject it. Calls that it answered, or that their clients ended, do not.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	const sent, begun, late = time.Millisecond, 2 * time.Millisecond, 2 * time.Second
	answered := func(code codes.Code) relay.Result {
		return relay.Result{Upstream: true, Forwarded: sent, FirstByte: begun, Ended: late, Code: uint32(code)}
	}
	failed := func(why relay.Failure, ended, firstByte time.Duration) relay.Result {
		return relay.Result{Forwarded: sent, FirstByte: firstByte, Ended: ended, Failure: why}
	}
	reset := func(code codes.Code) relay.Result {
		return relay.Result{Upstream: true, Forwarded: sent, Code: uint32(code), Failure: relay.UpstreamReset}
	}
	page := func(code codes.Code) relay.Result {
		return relay.Result{Upstream: true, Forwarded: sent, Code: uint32(code), Failure: relay.UpstreamNotGRPC}
	}
	for name, test := range map[string]struct {
		result  relay.Result
		ejected bool
	}{
		"an answer":                            {answered(codes.OK), false},
		"a tool's bug":                         {answered(codes.Internal), false},
		"unavailable":                          {answered(codes.Unavailable), true},
		"a reset":                              {reset(codes.Internal), true},
		"a cancel":                             {reset(codes.Canceled), false},
		"a load balancer's 502":                {page(codes.Unavailable), true},
		"a page":                               {page(codes.Unknown), true},
		"a firewall's 403":                     {page(codes.PermissionDenied), false},
		"a lost call":                          {failed(relay.UpstreamLost, begun, 0), true},
		"no answer":                            {failed(relay.DeadlineExceeded, late, 0), true},
		"a long answer":                        {failed(relay.DeadlineExceeded, late, begun), false},
		"nothing sent":                         {relay.Result{Ended: late, Failure: relay.DeadlineExceeded}, false},
		"a client that leaves at its deadline": {failed(relay.ClientGone, late-20*time.Millisecond, 0), true},
		"a client that leaves before":          {failed(relay.ClientGone, late-21*time.Millisecond, 0), false},
	} {
		c, _ := filtertest.NewCall()
		c.Fleet, c.Deadline = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1", "b:1", "c:1"),
			Ejection: router.Ejection{Failures: 1}}), late
		var f pick.Filter
		s := &pick.State{}
		f.Admit(c, s)
		test.result.Started = time.Now()
		f.Done(c, s, &filter.Result{Result: &test.result, Final: true})
		if got := c.Fleet.Stats().Ejected == 1; got != test.ejected {
			t.Errorf("%s: ejected %t", name, got)
		}
	}
}

// limited runs a test with a fleet whose backends serve one call at a time.
func limited(t *testing.T, test func(t *testing.T, fleet *router.Fleet)) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		limits := router.NewLimits(router.LimitsConfig{})
		table, err := router.NewTable(router.Config{Limits: limits, Fleets: []router.FleetConfig{{Capability: "weather",
			Backends: router.Addrs("a:1", "b:1"), Limit: router.Limit{PerBackend: 1}}}}, nil)
		check.Must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { limits.Run(ctx) })
		defer running.Wait()
		defer stop()
		test(t, router.New(table).Table().Fleet("weather"))
	})
}

// TestPermitOfACallThatEnded: a permit for a call that has ended meanwhile goes to the next call.
func TestPermitOfACallThatEnded(t *testing.T) {
	limited(t, func(t *testing.T, fleet *router.Fleet) {
		var f pick.Filter
		begin := func() (*filter.Call, *filtertest.Stream, *pick.State, filter.Step) {
			c, stream := filtertest.NewCall()
			c.Fleet = fleet
			s := &pick.State{}
			return c, stream, s, f.Admit(c, s)
		}
		done := &filter.Result{Result: &relay.Result{}, Final: true}
		first, _, running, _ := begin()
		begin()
		left, stream, waiting, step := begin()
		if step != filter.Wait {
			t.Fatalf("the third call of two: step %d", step)
		}
		stream.End()
		f.Done(first, running, done)
		synctest.Wait()
		f.Done(left, waiting, done)
		if _, _, _, step := begin(); step != filter.Continue {
			t.Errorf("the next call: step %d", step)
		}
	})
}

// TestCallsThatCannotEndInTime: a call that cannot end before its deadline does not wait for a permit. A stream waits,
// because a part of its response is useful.
func TestCallsThatCannotEndInTime(t *testing.T) {
	limited(t, func(t *testing.T, fleet *router.Fleet) {
		var f pick.Filter
		begin := func(method call.Method, deadline time.Duration) (func(), filter.Step, *call.Refusal) {
			c, stream := filtertest.NewCall()
			c.Fleet, c.Info.Method, stream.Deadline = fleet, method, deadline
			s := &pick.State{}
			step := f.Admit(c, s)
			return func() {
				f.Done(c, s, &filter.Result{Final: true, Result: &relay.Result{Upstream: true,
					Forwarded: time.Millisecond, FirstByte: 2 * time.Millisecond, Ended: 2 * time.Second}})
			}, step, c.Answer().Refusal
		}
		end, _, _ := begin(call.Invoke, time.Minute)
		end()
		for range 2 { // while a permit is free
			if _, step, refusal := begin(call.Invoke, time.Second); step != filter.Continue {
				t.Fatalf("step %d, %v", step, refusal)
			}
		}
		for _, test := range []struct {
			method   call.Method
			deadline time.Duration
			want     filter.Step
		}{
			{call.Invoke, time.Second, filter.Stop},
			{call.StreamInvoke, time.Second, filter.Wait},
			{call.Invoke, time.Minute, filter.Wait},
		} {
			end, step, refusal := begin(test.method, test.deadline)
			if step != test.want || (step == filter.Stop) != (refusal != nil && refusal.Reason == "CONCURRENCY_LIMIT") {
				t.Errorf("%v with %v: step %d, %v", test.method, test.deadline, step, refusal)
			}
			if step == filter.Wait {
				end()
			}
		}
	})
}

// TestPinnedCallsWait: a pinned call waits for a permit of its own backend.
func TestPinnedCallsWait(t *testing.T) {
	limited(t, func(t *testing.T, fleet *router.Fleet) {
		var f pick.Filter
		for _, want := range []filter.Step{filter.Continue, filter.Wait} {
			c, _ := filtertest.NewCall()
			c.Fleet, c.Pin.Backend = fleet, fleet.Backends[1]
			if step := f.Admit(c, &pick.State{}); step != want || c.Endpoint != nil && c.Endpoint.Addr != "b:1" {
				t.Errorf("step %d at %+v, want %d", step, c.Endpoint, want)
			}
		}
	})
}

// Two concurrent calls go to different backends.
func Example() {
	f, all := pick.Filter{}, fleet("a:1", "b:1")
	begin := func() string {
		c, _ := filtertest.NewCall()
		c.Fleet = all
		f.Admit(c, &pick.State{})
		return c.Endpoint.Addr
	}
	first, second := begin(), begin()
	fmt.Println(first != second)
	// Output: true
}
