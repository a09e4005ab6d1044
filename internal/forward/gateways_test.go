package forward_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/forward"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

const notStarted = "Unavailable: cannot connect to the gateway; the call was not started"

// TestNoGateway: without a gateway, a health check ends at once and a call after a while, both with a text that makes
// Selu repeat them.
func TestNoGateway(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"nobody listens": refused(t), "two are refused": refused(t) + "," + refused(t),
		"an unknown name": "http://gateway.invalid:80",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := run(t, forward.Settings{URL: url, Wait: 300 * time.Millisecond})
			if _, err := w.client.Healthcheck(t.Context(), &livepb.HealthRequest{}); text(err) != notStarted ||
				!mayRepeat(err) {
				t.Errorf("Healthcheck: %v", err)
			}
			wantNotStarted(t, w.invoke(t.Context(), gatewaytest.Echo), "GATEWAY_UNREACHABLE")
			began := time.Now()
			if err := w.invoke(t.Context(), gatewaytest.Echo); text(err) != notStarted {
				t.Errorf("Invoke: %v", err)
			}
			if took := time.Since(began); took < 290*time.Millisecond { // the shard's clock has ticks
				t.Errorf("the call was given up after %v", took)
			}
			w.log.Wait(t, "no gateway can be reached")
		})
	}
}

// wantNotStarted checks the details of an error, as programs read them.
func wantNotStarted(t *testing.T, err error, reason string) {
	t.Helper()
	info := clienttest.ErrorInfo(err)
	if info.GetReason() != reason || info.GetDomain() != "capgate.dev" || info.GetMetadata()["not_started"] != "true" {
		t.Errorf("%v has the details %v", err, status.Convert(err).Details())
	}
}

// TestHealthcheckDoesNotWait: the health check of a gateway that is away is answered long before Wait is over.
func TestHealthcheckDoesNotWait(t *testing.T) {
	t.Parallel()
	w := run(t, forward.Settings{URL: refused(t), Wait: time.Hour})
	if _, err := w.client.Healthcheck(t.Context(), &livepb.HealthRequest{}); text(err) != notStarted {
		t.Errorf("got %v", err)
	}
}

// TestOtherGateway: a call goes to whichever gateway takes it.
func TestOtherGateway(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string]string{
		"refuses": refused(t), "closes": "http://" + gatewaytest.Unreachable(t), "freezes": frozen(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, url := gateway(t)
			w := run(t, forward.Settings{URL: dead + "," + url, Wait: time.Minute})
			w.ok(t, gatewaytest.Echo)
		})
	}
}

// door is a listener that closes connections at once until it is open.
type door struct {
	net.Listener
	open   atomic.Bool
	turned chan struct{} // a value for each connection that was closed
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		nc, err := d.Listener.Accept()
		if err != nil || d.open.Load() {
			return nc, err
		}
		_ = nc.Close()
		d.turned <- struct{}{}
	}
}

// TestComesBack: a call that began without a gateway runs once a gateway is available.
func TestComesBack(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	d := &door{Listener: ln, turned: make(chan struct{}, 1024)}
	server := grpc.NewServer()
	livepb.RegisterCapabilityServer(server, livepb.UnimplementedCapabilityServer{})
	go func() { _ = server.Serve(d) }()
	t.Cleanup(server.Stop)
	w := run(t, forward.Settings{URL: "http://" + ln.Addr().String(), Wait: time.Minute})
	called := make(chan error, 1)
	go func() { called <- w.invoke(context.Background(), gatewaytest.Echo) }()
	for range 3 {
		check.Received(t, d.turned, "a connection to be turned away")
	}
	d.open.Store(true)
	if err := check.Received(t, called, "the end of the call"); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}

// TestDraining: a gateway that goes away keeps its running calls, and new calls go to another one at once.
func TestDraining(t *testing.T) {
	t.Parallel()
	first, b, url := gateway(t)
	second, _, other := gateway(t)
	w := run(t, forward.Settings{URL: url + "," + other, Wait: time.Minute})
	called := make(chan error, 1)
	go func() { called <- w.invoke(context.Background(), gatewaytest.Block) }()
	check.Received(t, first.Blocked(), "the call to be held at the backend")
	var going sync.WaitGroup
	going.Go(func() { b.GoAway(t) })
	check.Holds(t, "the first not to take calls any more", func() bool {
		w.ok(t, gatewaytest.Echo)
		return len(second.Seen()) > 0
	})
	select {
	case err := <-called:
		t.Fatalf("the running call has ended: %v", err)
	default:
	}
	first.Release()
	if err := check.Received(t, called, "the end of the call"); err != nil {
		t.Errorf("the running call: %v", err)
	}
	check.Ended(t, &going, "the forwarder to stop")
}

// TestLostCallIsNotMadeAgain: a call that its gateway may have carried out is not made again, and its error does not
// make Selu do so. A read is made again.
func TestLostCallIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	first, b, url := gateway(t)
	second, _, other := gateway(t)
	w := run(t, forward.Settings{URL: url + "," + other, Wait: time.Minute})
	called, fetched := make(chan error, 1), make(chan error, 1)
	go func() { called <- w.invoke(context.Background(), gatewaytest.Block) }()
	check.Received(t, first.Blocked(), "the call to be held at the backend")
	go func() {
		stream, err := w.client.DownloadOutputArtifact(context.Background(),
			&livepb.DownloadOutputArtifactRequest{CapabilityArtifactId: gatewaytest.Block})
		if err == nil {
			_, err = stream.Recv()
		}
		fetched <- err
	}()
	check.Received(t, first.Blocked(), "the call to be held at the backend")
	second.Release()
	b.Stop()
	err := check.Received(t, called, "the end of the call")
	if text(err) != "Unavailable: the gateway was lost during the call; the call may have been carried out" ||
		mayRepeat(err) {
		t.Errorf("got %v", err)
	}
	if err := check.Received(t, fetched, "the end of the fetch"); err != nil || len(second.Seen()) != 1 {
		t.Errorf("the read: %v; the other gateway has seen %d calls", err, len(second.Seen()))
	}
}

// TestAnswerOfARead: what a gateway answers to a read is passed on, and the read is not made again.
func TestAnswerOfARead(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	b := gatewaytest.NewCapability("gateway").Serve(t, call.Live,
		grpc.StreamInterceptor(func(any, grpc.ServerStream, *grpc.StreamServerInfo, grpc.StreamHandler) error {
			calls.Add(1)
			return status.Error(codes.Unavailable, "no backend is ready")
		}))
	w := run(t, forward.Settings{URL: "http://" + b.Addr})
	if err := w.download(t); text(err) != "Unavailable: no backend is ready" || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

// TestGatewayThatGoesAgainAndAgain: a read that loses its gateway each time is made a bounded number of times.
func TestGatewayThatGoesAgainAndAgain(t *testing.T) {
	t.Parallel()
	type connection struct{}
	var calls atomic.Int32
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			_ = r.Context().Value(connection{}).(net.Conn).Close()
		}), ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, nc)
	}}
	server.Protocols.SetUnencryptedHTTP2(true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
	w := run(t, forward.Settings{URL: "http://" + ln.Addr().String()})
	if err := w.download(t); status.Code(err) != codes.Unavailable || mayRepeat(err) || calls.Load() != 4 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

// download reads a file, and returns how that ends.
func (w *runningForwarder) download(t *testing.T) error {
	t.Helper()
	stream, err := w.client.DownloadOutputArtifact(t.Context(),
		&livepb.DownloadOutputArtifactRequest{CapabilityArtifactId: "f-1"})
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

// TestReset: a stream that the gateway resets ends with a status, as clients have words like connection for a reset.
func TestReset(t *testing.T) {
	t.Parallel()
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})}
	server.Protocols.SetUnencryptedHTTP2(true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
	w := run(t, forward.Settings{URL: "http://" + ln.Addr().String()})
	if err := w.invoke(t.Context(), gatewaytest.Echo); text(err) !=
		"Internal: the gateway broke the call off; the call may have been carried out" || mayRepeat(err) {
		t.Errorf("got %v", err)
	}
}

// TestLateCallHasNotStarted: a call whose time is over while it waits for a gateway has not started.
func TestLateCallHasNotStarted(t *testing.T) {
	t.Parallel()
	w := run(t, forward.Settings{URL: refused(t), Wait: time.Hour})
	conn, err := http2call(t, w, "200m")
	if err != nil || conn != "4 the call's deadline passed before it was started" {
		t.Errorf("got %q, %v", conn, err)
	}
}

// http2call makes a call whose deadline its client does not keep itself, and returns how it ends.
func http2call(t *testing.T, w *runningForwarder, timeout string) (string, error) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: clienttest.Bound(&http.Transport{Protocols: protocols})}
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.addr+
		"/selu.capability.v1.Capability/Invoke", strings.NewReader("\x00\x00\x00\x00\x00"))
	check.Must(t, err)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("Grpc-Timeout", timeout)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.Header.Get("Grpc-Status") + " " + resp.Header.Get("Grpc-Message"), nil
}
