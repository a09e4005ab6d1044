package gateway_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	"github.com/capgate/capgate/router"
)

// answerWith makes a backend end every call with a status.
func answerWith(code codes.Code) grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (any, error) {
		_, _ = handler(ctx, req)
		return nil, status.Error(code, "the backend's own status")
	})
}

// TestABackendDiesUnderLoad: when a backend dies, calls that it had may fail, since they may have run; all
// others are served by the other backend.
func TestABackendDiesUnderLoad(t *testing.T) {
	t.Parallel()
	first, second := gatewaytest.NewCapability("first"), gatewaytest.NewCapability("second")
	dying := first.Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Unprobed: true, Dialect: call.Doc,
		Ejection: router.Ejection{Base: time.Hour, Max: time.Hour},
		Backends: []string{dying.Addr, second.Serve(t, call.Doc).Addr},
	}}})
	const workers, each = 8, 200
	done := make(chan error) // callers wait after their first result, so that most calls come after the backend's end
	for range workers {
		client := gatewaytest.NewClient(g.Conn(t), call.Doc)
		go func() {
			for range each {
				_, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
				done <- err
			}
		}()
	}
	lost := 0
	for i := range workers * each {
		if i == workers*each/4 {
			dying.Stop()
		}
		if err := check.Received(t, done, "the end of a call"); err != nil {
			lost++
			if errorInfo(err).GetReason() != "UPSTREAM_LOST" {
				t.Error(err)
			}
		}
	}
	if lost > workers {
		t.Errorf("%d calls of %d workers were lost", lost, workers)
	}
	if seen := len(first.Seen()) + len(second.Seen()); seen > workers*each || seen < workers*each-lost ||
		len(first.Seen()) == 0 {
		t.Errorf("%d calls were made %d times, %d of them by the dead backend", workers*each, seen, len(first.Seen()))
	}
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	const ejected = `capgate_fleet_backends{capability="caps",state="ejected"}`
	m := g.Metrics(t)
	check.Until(t, "a call to find out", func() (bool, string) {
		if m = g.Metrics(t); m[ejected] == 1 {
			return true, ""
		}
		if _, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
		return false, fmt.Sprint(m)
	})
	if m[`capgate_ejections_total{capability="caps",result="ejected"}`] != 1 ||
		m[`capgate_retries_total{capability="caps",result="denied"}`] != 0 {
		t.Errorf("got %v", m)
	}
	for range each {
		if _, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal("a call after the gateway noticed the end: ", err)
		}
	}
}

// TestEjection: certain failures eject a backend, others do not.
func TestEjection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code    codes.Code // status of every response, if not OK
		tool    string
		timeout time.Duration // deadline of a call
		least   time.Duration // least time before a call counts
		silent  bool          // the backend does not respond
		cancel  bool          // the caller cancels
		want    float64
	}{
		"UNAVAILABLE":                  {code: codes.Unavailable, tool: gatewaytest.Echo, want: 1},
		"INTERNAL":                     {code: codes.Internal, tool: gatewaytest.Echo},
		"UNKNOWN":                      {code: codes.Unknown, tool: gatewaytest.Echo},
		"RESOURCE_EXHAUSTED":           {code: codes.ResourceExhausted, tool: gatewaytest.Echo},
		"DEADLINE_EXCEEDED as it says": {code: codes.DeadlineExceeded, tool: gatewaytest.Echo},
		"a tool's error":               {tool: gatewaytest.Fail},
		"a tool's status":              {tool: gatewaytest.Break},
		"no answer in time": {tool: gatewaytest.Echo, silent: true, timeout: 100 * time.Millisecond,
			least: time.Millisecond, want: 1},
		"callers in a hurry": {tool: gatewaytest.Echo, silent: true, timeout: 10 * time.Millisecond,
			least: time.Hour},
		"callers that leave": {tool: gatewaytest.Block, cancel: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := gatewaytest.NewCapability("bad")
			var opts []grpc.ServerOption
			if test.code != codes.OK {
				opts = append(opts, answerWith(test.code))
			}
			serve := func() string {
				if test.silent {
					return gatewaytest.Silent(t)
				}
				return bad.Serve(t, call.Doc, opts...).Addr
			}
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
				Capability: "caps", Unprobed: true, Dialect: call.Doc, SlowStart: -1,
				Ejection: router.Ejection{Failures: 3, TimeoutLeast: test.least, Base: time.Hour, Max: time.Hour},
				Backends: []string{serve(), serve()}, // of two, only one can be ejected
			}}})
			client := gatewaytest.NewClient(g.Conn(t), call.Doc)
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				if test.timeout > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), test.timeout)
				}
				if test.cancel {
					go func() {
						<-bad.Blocked()
						cancel()
					}()
				}
				_, _ = client.Invoke(ctx, request(test.tool, `{}`))
				cancel()
			}
			m := g.Metrics(t)
			if got := m[`capgate_fleet_backends{capability="caps",state="ejected"}`]; got != test.want {
				t.Errorf("%v ejected, want %v: %v", got, test.want,
					m[`capgate_ejections_total{capability="caps",result="spared"}`])
			}
		})
	}
}

// TestEjectedBackendsReturn: an ejected backend is probed when its ejection ends, and stays if it serves.
func TestEjectedBackendsReturn(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	flaky := gatewaytest.NewCapability("flaky")
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Unprobed: true, Dialect: call.Doc, SlowStart: -1,
		Ejection: router.Ejection{Failures: 1, Base: 20 * time.Millisecond, Max: 100 * time.Millisecond},
		Backends: []string{
			gatewaytest.NewCapability("fine").Serve(t, call.Doc).Addr,
			flaky.Serve(t, call.Doc, grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
				handler grpc.UnaryHandler) (any, error) {
				if broken.Load() {
					return nil, status.Error(codes.Unavailable, "broken")
				}
				return handler(ctx, req)
			})).Addr,
		},
	}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	const counter = `capgate_ejections_total{capability="caps",result="ejected"}`
	check.Until(t, "it to be ejected again", func() (bool, string) {
		_, _ = client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
		n := g.Metrics(t)[counter]
		return n >= 3, fmt.Sprintf("%v ejections", n)
	})
	broken.Store(false)
	check.Until(t, "it to serve again", func() (bool, string) {
		_, _ = client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
		n := len(flaky.Seen())
		return n >= 10, fmt.Sprintf("%d calls", n)
	})
}

// If more than half of the fleet seems unhealthy, calls reach those backends anyway.
func TestPanic(t *testing.T) {
	t.Parallel()
	notReady := gatewaytest.NewCapability("not ready")
	says := grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (any, error) {
		if info.FullMethod == "/selu.capability.Capability/Healthcheck" {
			return nil, status.Error(codes.Internal, "the check itself is broken")
		}
		return handler(ctx, req)
	})
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Dialect: call.Doc,
		Backends: []string{check.ClosedPort(t), notReady.Serve(t, call.Doc, says).Addr,
			notReady.Serve(t, call.Doc, says).Addr},
	}}})
	g.WaitHealth(t, "caps", gatewaytest.States(health.Down, health.Down, health.Down))
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	for range 20 {
		if _, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	m := g.Metrics(t)
	if m[`capgate_fleet_panic{capability="caps"}`] != 1 ||
		m[`capgate_fleet_backends{capability="caps",state="usable"}`] != 2 ||
		m[`capgate_retries_total{capability="caps",result="sent"}`] != 0 {
		t.Errorf("got %v", m)
	}
}

// TestSlowBackendsGetFewerCalls: a slow backend gets fewer calls. It is far slower than the other one ever was, however
// slow the machine is.
func TestSlowBackendsGetFewerCalls(t *testing.T) {
	t.Parallel()
	fast, slow := gatewaytest.NewCapability("fast"), gatewaytest.NewCapability("slow")
	var worst atomic.Int64 // of the fast backend's calls, in nanoseconds
	waits := grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (any, error) {
		<-time.After(100*time.Millisecond + 4*time.Duration(worst.Load()))
		return handler(ctx, req)
	})
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Unprobed: true, Dialect: call.Doc,
		Backends: []string{fast.Serve(t, call.Doc).Addr, slow.Serve(t, call.Doc, waits).Addr},
	}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	elsewhere := time.Duration(0)
	for range 200 {
		before, began := len(slow.Seen()), time.Now()
		if _, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
		if len(slow.Seen()) == before {
			took := time.Since(began)
			elsewhere += took
			worst.Store(max(worst.Load(), int64(took)))
		}
	}
	// It is tried again every few seconds, and a busy machine may take many seconds for the calls.
	if n := len(slow.Seen()); n > 20+int(elsewhere/time.Second) {
		t.Errorf("%d of 200 calls went to the slow backend; the others took %v", n, elsewhere)
	}
}

// TestRetryBudget: the budget bounds retries of calls that a backend rejects. A call that is not retried ends
// with its own status.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	var refused atomic.Int32
	refusing := startRefusing(t, &refused, func(*rawhttp2.Conn, uint32) error { return nil }, resets)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Unprobed: true, Dialect: call.Doc, SlowStart: -1,
		Ejection: router.Ejection{Failures: -1}, Retries: router.Retries{Floor: 1},
		Backends: []string{refusing, gatewaytest.NewCapability("fine").Serve(t, call.Doc).Addr},
	}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	failed, began := 0., time.Now()
	for range 100 {
		if _, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
			if failed++; errorInfo(err).GetReason() != "BACKEND_UNREACHABLE" {
				t.Error(err)
			}
		}
	}
	m := g.Metrics(t)
	sent, denied := m[`capgate_retries_total{capability="caps",result="sent"}`],
		m[`capgate_retries_total{capability="caps",result="denied"}`]
	// a tenth of the calls, the floor of one a second for 10 s, and what accrued since
	most := 21 + time.Since(began).Seconds()
	if denied != failed || denied == 0 || sent < 10 || sent > most {
		t.Errorf("%v sent, at most %v, %v denied, %v failed", sent, most, denied, failed)
	}
}

// A backend that closes every connection counts as unreachable.
func TestHangUpsEject(t *testing.T) {
	t.Parallel()
	alive := gatewaytest.NewCapability("alive")
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Unprobed: true, Dialect: call.Doc,
		Ejection: router.Ejection{Base: time.Hour, Max: time.Hour},
		Backends: []string{gatewaytest.Unreachable(t), alive.Serve(t, call.Doc).Addr},
	}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	for range 50 {
		if _, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	if m := g.Metrics(t); m[`capgate_retries_total{capability="caps",result="sent"}`] > 1 {
		t.Errorf("got %v second attempts", m[`capgate_retries_total{capability="caps",result="sent"}`])
	}
}
