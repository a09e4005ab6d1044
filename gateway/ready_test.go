package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/gateway"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// dormantGateway is a gateway before a backend that has not started yet.
type dormantGateway struct {
	*gatewaytest.Gateway
	addr  string      // of the backend
	waits chan string // capabilities for which calls wait
}

// startLate starts a gateway whose calls wait for the given time.
func startLate(t *testing.T, wait time.Duration, change ...func(*gatewaytest.Options)) *dormantGateway {
	t.Helper()
	l := &dormantGateway{addr: check.ClosedPort(t), waits: make(chan string, 1000)}
	o := gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{
			Capability: "caps", Services: []string{"test.Other"}, Backends: []string{l.addr},
			Health: health.Config{WaitForReady: wait},
		}},
		Expedited: func(capability string) { l.waits <- capability },
	}
	for _, c := range change {
		c(&o)
	}
	l.Gateway = gatewaytest.Start(t, o)
	return l
}

// listenAt listens at an address of check.ClosedPort.
func listenAt(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	check.Must(t, err)
	return ln
}

// waitForCall returns when a call waits for the backend, and fails the test if the call ends first.
func (l *dormantGateway) waitForCall(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case <-l.waits:
	case err := <-ended:
		t.Fatalf("the call does not wait: %v", err)
	}
}

// TestCallsWaitForABackend: a call of any kind that arrives before its only backend listens is served by that
// backend.
func TestCallsWaitForABackend(t *testing.T) {
	t.Parallel()
	echo := request(gatewaytest.Echo, `{}`)
	for name, do := range map[string]func(*testing.T, *dormantGateway, gatewaytest.Client) error{
		"invoke": func(t *testing.T, _ *dormantGateway, c gatewaytest.Client) error {
			_, err := c.Invoke(t.Context(), echo)
			return err
		},
		"stream": func(t *testing.T, _ *dormantGateway, c gatewaytest.Client) error {
			_, err := c.StreamInvoke(t.Context(), echo)
			return err
		},
		"upload": func(t *testing.T, _ *dormantGateway, c gatewaytest.Client) error {
			_, err := c.Upload(to(t.Context(), "caps"), gatewaytest.File{Data: []byte("x")})
			return err
		},
		"download": func(t *testing.T, _ *dormantGateway, c gatewaytest.Client) error {
			_, err := c.Download(to(t.Context(), "caps"), "missing")
			if status.Code(err) == codes.Unavailable {
				return err
			}
			return nil // the capability does not have it
		},
		"another service": func(t *testing.T, l *dormantGateway, _ gatewaytest.Client) error {
			err := l.Conn(t).Invoke(t.Context(), "/test.Other/Get", &emptypb.Empty{}, &emptypb.Empty{})
			if status.Code(err) == codes.Unimplemented { // by the backend
				return nil
			}
			return err
		},
		"JSON": func(t *testing.T, l *dormantGateway, _ gatewaytest.Client) error {
			if resp, body := post(t, l.HTTP1(t), l.Gateway, "caps",
				`{"tool_name":"echo"}`); resp.StatusCode != http.StatusOK {
				return status.Error(codes.Unknown, body)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLate(t, check.Patience)
			c := gatewaytest.NewClient(l.Conn(t), call.Live)
			ended := make(chan error, 1)
			go func() { ended <- do(t, l, c) }()
			l.waitForCall(t, ended)
			gatewaytest.NewCapability("late").ServeOn(t, listenAt(t, l.addr), call.Doc)
			if err := check.Received(t, ended, "the end of the call"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAgentsWaitForTheirEngine: an agent that connects before its engine listens is accepted.
func TestAgentsWaitForTheirEngine(t *testing.T) {
	t.Parallel()
	shared, _ := shareEngines(t, nil)
	l := startLate(t, check.Patience, func(o *gatewaytest.Options) {
		o.Engines = shared
		o.Fleets[0].Services, o.Fleets[0].Protocol = allOfEngine(), &guard.Settings{Queue: 1, Buffer: 4 << 20}
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- agent.Run(ctx, l.Conn(t), agent.Config{Ready: func() { close(ready) }}) }()
	l.waitForCall(t, ended)
	serving, stopEngine := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- engine.New(engine.Config{}).Serve(serving, listenAt(t, l.addr)) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Errorf("the agent was refused: %v", err)
	}
	stop()
	stopEngine()
	if err := check.Received(t, served, "the end of serving"); err != nil {
		t.Error(err)
	}
}

// TestWaitEnds: a call whose fleet stays dead is rejected after the wait, and one that may not wait at once.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"after a wait": 50 * time.Millisecond, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLate(t, wait)
			began := time.Now()
			_, err := gatewaytest.NewClient(l.Conn(t), call.Doc).Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
			if info := errorInfo(err); info.GetReason() != "NO_HEALTHY_BACKEND" || time.Since(began) < wait {
				t.Errorf("after %v: %v; info %+v", time.Since(began), err, info)
			}
			if waits := len(l.waits) > 0; waits != (wait > 0) {
				t.Errorf("the call has waited: %t", waits)
			}
		})
	}
}

// TestWaitEndsWhenTheCallerLeaves: a waiting call ends at once when its client cancels, and at its deadline.
func TestWaitEndsWhenTheCallerLeaves(t *testing.T) {
	t.Parallel()
	l := startLate(t, time.Hour)
	c := gatewaytest.NewClient(l.Conn(t), call.Doc)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-l.waits
		leave()
	}()
	if _, err := c.Invoke(ctx, request(gatewaytest.Echo, `{}`)); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	for limit := 50 * time.Millisecond; len(l.waits) == 0; limit *= 2 { // until it suffices to reach the gateway
		ctx, leave = context.WithTimeout(t.Context(), limit)
		if _, err := c.Invoke(ctx, request(gatewaytest.Echo, `{}`)); status.Code(err) != codes.DeadlineExceeded {
			t.Fatal(err)
		}
		leave()
	}
	l.Log.Calls(t, 2) // both are over
}

// TestWaitWhileDraining: a gateway that stops ends the waiting calls.
func TestWaitWhileDraining(t *testing.T) {
	t.Parallel()
	l := startLate(t, time.Hour, func(o *gatewaytest.Options) { o.Drain = &gateway.Drain{Timeout: time.Millisecond} })
	ended := make(chan error, 1)
	c := gatewaytest.NewClient(l.Conn(t), call.Doc)
	go func() {
		_, err := c.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
		ended <- err
	}()
	l.waitForCall(t, ended)
	l.Stop(t)
	if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// TestFloodOfADeadFleet: a thousand waiting calls cause only a few probes, and all are served by the backend
// that starts.
func TestFloodOfADeadFleet(t *testing.T) {
	t.Parallel()
	l := startLate(t, check.Patience)
	c := gatewaytest.NewClient(l.Conn(t), call.Doc)
	const calls = 1000
	ended := make(chan error, calls)
	began, before := time.Now(), l.Probes()
	for range calls {
		go func() {
			_, err := c.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
			ended <- err
		}()
	}
	check.Until(t, "the calls to wait", func() (bool, string) {
		held := l.Metrics(t)[`capgate_memory_bytes{pool="unready"}`]
		return held >= calls*4<<10, fmt.Sprint(held, " bytes are held")
	})
	if n, most := l.Probes()-before, int(time.Since(began)/(100*time.Millisecond))+2; n > most {
		t.Errorf("%d probes in %v, want at most %d", n, time.Since(began), most)
	}
	gatewaytest.NewCapability("late").ServeOn(t, listenAt(t, l.addr), call.Doc)
	for range calls {
		check.Must(t, check.Received(t, ended, "the end of the call"))
	}
	if held := l.Metrics(t)[`capgate_memory_bytes{pool="unready"}`]; held != 0 {
		t.Errorf("%v bytes are still held", held)
	}
}

// TestHealthcheckTriggersAProbe: a client that polls Healthcheck, as Selu does, gets a response at once, and
// finds the fleet ready after its first successful probe.
func TestHealthcheckTriggersAProbe(t *testing.T) {
	t.Parallel()
	l := startLate(t, time.Hour)
	c := gatewaytest.NewClient(l.Conn(t), call.Live)
	if ready, message, err := c.Healthcheck(to(t.Context(), "caps")); ready || err != nil {
		t.Errorf("got %t, %s, %v", ready, message, err)
	}
	check.Received(t, l.waits, "the health check to wait")
	gatewaytest.NewCapability("late").ServeOn(t, listenAt(t, l.addr), call.Doc)
	check.Until(t, "the fleet to be ready", func() (bool, string) {
		ready, message, err := c.Healthcheck(to(t.Context(), "caps"))
		if err != nil || !ready && !strings.HasPrefix(message, "0 of 1") {
			t.Fatalf("got %t, %s, %v", ready, message, err)
		}
		return ready, message
	})
}
