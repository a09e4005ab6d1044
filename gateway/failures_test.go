package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// retryDelay returns the delay in google.rpc.RetryInfo; 0 if there is none.
func retryDelay(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// closedPort returns check.ClosedPort.
func closedPort(t testing.TB) string { return check.ClosedPort(t) }

func TestNoBackendIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		unprobed bool // health has not noticed yet
		address  func(testing.TB) string
		reason   string
	}{
		{"health knows", false, closedPort, "NO_HEALTHY_BACKEND"},
		{"health is not sure", false, gatewaytest.Unreachable, "BACKEND_UNREACHABLE"},
		{"health does not know yet", true, closedPort, "BACKEND_UNREACHABLE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
				Capability: "caps", Backends: []string{test.address(t), test.address(t)},
				Unprobed: test.unprobed, Dialect: call.Doc,
			}}})
			client := gatewaytest.NewClient(g.Conn(t), call.Live)
			_, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
			_, upErr := client.Upload(to(t.Context(), "caps"), gatewaytest.File{Data: []byte("x")})
			for what, err := range map[string]error{"invoke": err, "upload": upErr} {
				info := errorInfo(err)
				if status.Code(err) != codes.Unavailable || info.GetReason() != test.reason ||
					info.GetDomain() != "capgate.dev" || info.GetMetadata()["capability"] != "caps" ||
					retryDelay(err) <= 0 {
					t.Errorf("%s: %v, info %v, retry after %v", what, err, info, retryDelay(err))
				}
				if strings.Contains(err.Error(), "127.0.0.1") {
					t.Errorf("%s: the error contains addresses: %v", what, err)
				}
			}
			resp, body := post(t, g.HTTP1(t), g, "caps", `{"tool_name":"echo"}`)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
				!strings.Contains(body, test.reason) {
				t.Errorf("REST: %s, Retry-After %q, %s", resp.Status, resp.Header.Get("Retry-After"), body)
			}
			if test.unprobed {
				return
			}
			if ready, message, err := client.Healthcheck(to(t.Context(), "caps")); err != nil || ready ||
				message != "0 of 2 backends ready" {
				t.Errorf("healthcheck: %v, %q, %v", ready, message, err)
			}
		})
	}
}

// A backend that cannot be reached loses no call: another one is tried.
func TestDeadBackendInAFleetOfTwo(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		alive := gatewaytest.NewCapability("alive")
		g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
			Capability: "caps", Dialect: backend, Unprobed: true,
			Backends: []string{gatewaytest.Unreachable(t), alive.Serve(t, backend).Addr},
		}}})
		c := gatewaytest.NewClient(g.Conn(t), client)
		const calls = 40
		for i := range calls {
			var err error
			switch {
			case i%3 == 1 && client != call.Legacy:
				_, err = c.StreamInvoke(t.Context(), request(gatewaytest.Echo, `{}`))
			case i%3 == 2 && filed(client, backend):
				_, err = c.Upload(to(t.Context(), "caps"), gatewaytest.File{Data: []byte("x")})
			default:
				_, err = c.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
			}
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if got := len(alive.Seen()); got != calls {
			t.Errorf("the live backend got %d calls, want %d, each once", got, calls)
		}
	})
}

// While a fleet changes from one dialect to the other it has backends of both. A retried call may have to be
// translated, and a translated one stays at backends of that dialect.
func TestFleetOfBothDialects(t *testing.T) {
	eachPair(t, func(t *testing.T, client, leaving call.Dialect) {
		other := map[call.Dialect]call.Dialect{call.Doc: call.Live, call.Live: call.Doc}[leaving]
		old, replacement := gatewaytest.NewCapability("old"), gatewaytest.NewCapability("new")
		backend := old.Serve(t, leaving)
		g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
			Capability: "caps", Backends: []string{backend.Addr, replacement.Serve(t, other).Addr},
		}}})
		c := gatewaytest.NewClient(g.Conn(t), client)
		const each = 20
		run := func() {
			for range each {
				if _, err := c.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
					t.Error(err)
				}
				if _, err := c.Upload(to(t.Context(), "caps"), gatewaytest.File{Name: "f"}); err != nil {
					t.Error(err)
				}
			}
		}
		run()
		backend.GoAway(t)
		run()
		if got := len(old.Seen()) + len(replacement.Seen()); got != 4*each || len(old.Seen()) == 0 {
			t.Errorf("%d calls were made %d times, %d of them at the backend that left", 4*each, got, len(old.Seen()))
		}
		if lines := g.Log.Calls(t, 4*each); len(lines) != 4*each {
			t.Errorf("%d lines for %d calls", len(lines), 4*each)
		}
	})
}

// A backend that sends GOAWAY under load fails no call and gets none twice.
func TestBackendGoesAwayUnderLoad(t *testing.T) {
	t.Parallel()
	first, second := gatewaytest.NewCapability("first"), gatewaytest.NewCapability("second")
	leaving := first.Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Unprobed: true, Dialect: call.Doc,
		Backends: []string{leaving.Addr, second.Serve(t, call.Doc).Addr},
	}}})
	const workers, each = 8, 100
	done := make(chan error, workers*each)
	half := make(chan struct{}, workers*each)
	for range workers {
		client := gatewaytest.NewClient(g.Conn(t), call.Doc)
		go func() {
			for range each {
				_, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
				half <- struct{}{}
				done <- err
			}
		}()
	}
	for range workers * each / 4 {
		check.Received(t, half, "the first half")
	}
	leaving.GoAway(t)
	for range workers * each {
		if err := check.Received(t, done, "the end of a call"); err != nil {
			t.Error(err)
		}
	}
	if got := len(first.Seen()) + len(second.Seen()); got != workers*each || len(first.Seen()) == 0 {
		t.Errorf("%d calls were made %d times, %d of them by the one that left", workers*each, got, len(first.Seen()))
	}
}

// TestBackendDiesDuringCalls: a call that may have run is not retried, and never ends with OK.
func TestBackendDiesDuringCalls(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Live, call.Doc)
	results := make(chan error, 2)
	go func() {
		_, err := f.client.Invoke(t.Context(), request(gatewaytest.Block, `{}`))
		results <- err
	}()
	go func() {
		_, err := f.client.StreamInvoke(t.Context(), request(gatewaytest.Block, `{}`))
		results <- err
	}()
	check.Received(t, f.capability.Blocked(), "the first call")
	check.Received(t, f.capability.Blocked(), "the second call")
	f.backend.Stop()
	for range 2 {
		if err := check.Received(t, results, "the result"); status.Code(err) != codes.Unavailable ||
			errorInfo(err).GetReason() != "UPSTREAM_LOST" ||
			retryDelay(err) != 0 {
			t.Errorf("%v, retry after %v", err, retryDelay(err))
		}
	}
	if got := len(f.capability.Seen()); got != 2 {
		t.Errorf("the backend got %d calls, want 2", got)
	}
}

func TestHealthTakesOutAndBringsBack(t *testing.T) {
	t.Parallel()
	dying := gatewaytest.NewCapability("dying").Serve(t, call.Live)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Backends: []string{dying.Addr, gatewaytest.NewCapability("alive").Serve(t, call.Live).Addr},
		Health: health.Config{Interval: 5 * time.Millisecond, Rise: 1, Fall: 1},
	}}})
	g.WaitHealth(t, "caps", gatewaytest.States(health.Up, health.Up))
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	if _, message, err := client.Healthcheck(to(t.Context(), "caps")); message != "2 of 2 backends ready" {
		t.Errorf("got %q, %v", message, err)
	}
	dying.Stop()
	g.WaitHealth(t, "caps", gatewaytest.States(health.Down, health.Up))
	if ready, message, err := client.Healthcheck(to(t.Context(), "caps")); !ready ||
		message != "1 of 2 backends ready" {
		t.Errorf("got %v, %q, %v", ready, message, err)
	}
}

func TestTheFleetsDeadline(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Backends: []string{gatewaytest.Silent(t)}, Unprobed: true, Dialect: call.Doc,
		Deadlines: router.Deadlines{Default: 50 * time.Millisecond, Max: 100 * time.Millisecond,
			Stream: 150 * time.Millisecond},
	}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	long, cancel := context.WithTimeout(t.Context(), time.Hour)
	check.Cleanup(t, cancel)
	// The relay's TestMachine proves in virtual time that a call ends soon after its deadline.
	for name, test := range map[string]struct {
		ctx   context.Context
		run   func(context.Context) error // nil means REST
		limit time.Duration
	}{
		"unary, no deadline":     {t.Context(), invokeBlock(client), 50 * time.Millisecond},
		"unary, too long a one":  {long, invokeBlock(client), 100 * time.Millisecond},
		"stream, no deadline":    {t.Context(), streamBlock(client), 150 * time.Millisecond},
		"stream, too long a one": {long, streamBlock(client), 150 * time.Millisecond},
		"REST, too long a one":   {t.Context(), nil, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			if test.run == nil {
				resp, body := post(t, g.HTTP2(t), g, "caps", `{"tool_name":"block"}`, "Request-Timeout", "3600")
				if resp.StatusCode != http.StatusGatewayTimeout {
					t.Errorf("got %s %s", resp.Status, body)
				}
			} else {
				err := soon(t, func() error { return test.run(test.ctx) })
				wants(t, err, codes.DeadlineExceeded, "DEADLINE_EXCEEDED")
			}
			if took := time.Since(began); took < test.limit-10*time.Millisecond {
				t.Errorf("ended after %v, want %v", took, test.limit)
			}
		})
	}
}

// soon waits for the end of a call, which the test expects, and returns its result.
func soon(t *testing.T, run func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	return check.Received(t, ended, "the end of a call")
}

func invokeBlock(c gatewaytest.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.Invoke(ctx, request(gatewaytest.Block, `{}`))
		return err
	}
}

func streamBlock(c gatewaytest.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.StreamInvoke(ctx, request(gatewaytest.Block, `{}`))
		return err
	}
}

// When a caller cancels, its call ends at the backend too.
func TestCallersCancelReachesTheBackend(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- invokeBlock(f.client)(ctx) }()
		check.Received(t, f.capability.Blocked(), "the call")
		cancel()
		if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Canceled {
			t.Error(err)
		}
		if line := f.gateway.Log.Calls(t, 1)[0]; line.Text("code") != "CANCELLED" {
			t.Errorf("logged %v", line)
		}
		f.gateway.Stop(t)
		f.backend.GoAway(t) // returns when no handler is running
	})
}
