package forward_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/forward"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// runningForwarder is a forwarder and a client of it.
type runningForwarder struct {
	addr   string
	client livepb.CapabilityClient
	conn   *grpc.ClientConn
	log    *gatewaytest.Log
	stop   context.CancelFunc
	ended  chan error // what Run returned
}

// run starts a forwarder of the capability weather, until the test ends.
func run(t *testing.T, s forward.Settings) *runningForwarder {
	t.Helper()
	s.Capability, s.Listen = "weather", "127.0.0.1:0"
	w := &runningForwarder{log: gatewaytest.NewLog(), ended: make(chan error, 1)}
	f, err := forward.Listen(s, slog.New(slog.NewJSONHandler(w.log, nil)))
	check.Must(t, err)
	w.addr = f.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.ended <- f.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		check.Received(t, over, "the forwarder to stop")
	})
	w.conn, err = clienttest.NewConn("passthrough:///"+w.addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	t.Cleanup(func() { _ = w.conn.Close() })
	w.client = livepb.NewCapabilityClient(w.conn)
	return w
}

// gateway starts what answers calls as a gateway does, and returns its URL.
func gateway(t *testing.T) (*gatewaytest.Capability, *gatewaytest.Backend, string) {
	t.Helper()
	c := gatewaytest.NewCapability("gateway")
	b := c.Serve(t, call.Live)
	return c, b, "http://" + b.Addr
}

func (w *runningForwarder) invoke(ctx context.Context, tool string) error {
	_, err := w.client.Invoke(ctx, &livepb.InvokeRequest{ToolName: tool, ArgsJson: []byte("{}")})
	return err
}

func (w *runningForwarder) ok(t *testing.T, tool string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	if err := w.invoke(ctx, tool); err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
}

// mayRepeat decides like Selu.
func mayRepeat(err error) bool { return strings.Contains(strings.ToLower(err.Error()), "connect") }

// refused returns an address that refuses connections.
func refused(t *testing.T) string {
	t.Helper()
	return "http://" + check.ClosedPort(t)
}

// text returns a status as the tests compare it.
func text(err error) string { return status.Code(err).String() + ": " + status.Convert(err).Message() }

// frozen returns a port that takes connections and says nothing.
func frozen(t *testing.T) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return "http://" + ln.Addr().String()
}
