package gateway_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// quick makes health checks notice an unresponsive backend soon.
var quick = health.Config{Interval: 50 * time.Millisecond, Timeout: 50 * time.Millisecond, Fall: 1}

// TestFrozenBackend: calls at a frozen backend end long before their deadline, as ones that may have run, and
// new calls go elsewhere.
func TestFrozenBackend(t *testing.T) {
	t.Parallel()
	one, two := gatewaytest.NewCapability("one"), gatewaytest.NewCapability("two")
	ln := gatewaytest.NewFreezer(check.Listen(t))
	frozen := one.ServeOn(t, ln, call.Doc)
	check.Cleanup(t, ln.Thaw)
	patient := quick // a busy machine is slower, but not frozen
	patient.Timeout = 2 * time.Second
	g := gatewaytest.Start(t, gatewaytest.Options{
		Relay: relay.Config{Timeouts: relay.Timeouts{Ping: patient.Timeout}},
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Dialect: call.Doc, Health: patient,
			Backends: []string{frozen.Addr, two.Serve(t, call.Doc).Addr}}},
	})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	ended := make(chan error, 2)
	blocked := func() { ended <- invokeBlock(client)(t.Context()) }
	go blocked()
	select { // the other call goes to the idle backend
	case <-one.Blocked():
		go blocked()
		check.Received(t, two.Blocked(), "the second call")
	case <-two.Blocked():
		go blocked()
		check.Received(t, one.Blocked(), "the second call")
	}
	ln.Freeze()
	wants(t, check.Received(t, ended, "the end of the call"), codes.Unavailable, "UPSTREAM_LOST")
	for range 10 {
		_, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
		check.Must(t, err)
	}
	two.Release()
	check.Must(t, check.Received(t, ended, "the end of the other call"))
}

// TestSlowHealthcheck: a backend that does not answer probes but serves calls keeps them, for any length of
// time.
func TestSlowHealthcheck(t *testing.T) {
	t.Parallel()
	slow := grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (any, error) {
		if info.FullMethod == "/selu.capability.Capability/Healthcheck" {
			<-ctx.Done()
		}
		return handler(ctx, req)
	})
	one, silent := gatewaytest.NewCapability("one"), make(chan struct{}, 100)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Relay: relay.Config{Timeouts: relay.Timeouts{Ping: 2 * time.Second}},
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Dialect: call.Doc, Health: quick,
			Backends: []string{one.Serve(t, call.Doc, slow).Addr}}},
		Check: func(string, string) {
			select {
			case silent <- struct{}{}:
			default:
			}
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- invokeBlock(gatewaytest.NewClient(g.Conn(t), call.Doc))(t.Context()) }()
	check.Received(t, one.Blocked(), "the call")
	for len(silent) > 0 {
		<-silent
	}
	for range 80 { // far longer than a PING may take, and longer than the backend permits between PINGs
		check.Received(t, silent, "a probe without an answer")
	}
	one.Release()
	check.Must(t, check.Received(t, ended, "the end of the call"))
}
