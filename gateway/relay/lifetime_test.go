package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestMaxConns: at the limit, further clients wait until another one leaves.
func TestMaxConns(t *testing.T) {
	t.Parallel()
	h := &forwarder{}
	h.onHeaders(func(s *relay.Stream) { s.Reply(nil) })
	_, addr := serveRelay(t, relay.Config{Limits: accept.Limits{MaxConns: 2}}, h, http.NotFoundHandler())
	first := rawClient(t, addr)
	web, err := net.Dial("tcp", addr) // HTTP/1.1 counts too
	check.Must(t, err)
	_, err = web.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	check.Must(t, err)
	_, err = web.Read(make([]byte, 100))
	check.Must(t, err)
	for _, leave := range []io.Closer{first, web} {
		waiting, err := rawhttp2.Dial(addr)
		check.Must(t, err)
		defer waiting.Close()
		waiting.Timeout = 50 * time.Millisecond
		if err := waiting.Greet(); err == nil {
			t.Fatal("a third client was served")
		}
		waiting.Timeout = check.Patience
		_ = leave.Close()
		if _, err := waiting.Read(); err != nil {
			t.Errorf("the place of one that left is not used: %v", err)
		}
	}
}

// brokenListener fails a few times, as if no file descriptors were left, and then works.
type brokenListener struct {
	net.Listener
	fails int
}

func (l *brokenListener) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, errors.New("too many open files")
	}
	return l.Listener.Accept()
}

// TestServeEnds: Serve returns an error only if the listener has failed.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	h := &forwarder{}
	h.onHeaders(func(s *relay.Stream) { s.Reply(nil) })
	r := relay.New(relay.Config{}, h, http.NotFoundHandler())
	defer r.Close()
	ln := check.Listen(t)
	served := make(chan error, 1)
	go func() { served <- r.Serve(&brokenListener{ln, 3}) }()
	if _, err := unary(t.Context(), dialRaw(t, ln.Addr().String()), "Echo", nil); err != nil {
		t.Errorf("after errors that pass: %v", err)
	}
	_ = ln.Close()
	if err := check.Received(t, served, "the end of serving"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	r.Close()
	late := check.Listen(t)
	if err := r.Serve(late); err != nil {
		t.Errorf("Serve after Close: %v", err)
	}
	if err := late.(*net.TCPListener).SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Error("the listener is still open")
	}
}

// TestUpstreamClosesWhileDialled: calls that wait for a connection are served although the Upstream was closed
// meanwhile. Then the connection is closed.
func TestUpstreamClosesWhileDialled(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Shards: 1})
	slow := make(chan struct{})
	dials := sync.OnceFunc(func() { close(slow) })
	check.Cleanup(t, dials)
	up := w.NewUpstream(relay.UpstreamConfig{Dial: func(context.Context) (net.Conn, error) {
		<-slow
		return net.Dial("tcp", w.back.addr)
	}})
	asked := make(chan struct{}, 10)
	w.h.onHeaders(func(s *relay.Stream) { s.Forward(up); asked <- struct{}{} })
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
				t.Error(err)
			}
		})
		check.Received(t, asked, "the question")
	}
	up.Close()
	dials()
	check.Ended(t, &all, "the calls")
	w.waitNoUpstreams(t, up)
}

// waitNoUpstreams waits until no connection to a backend is left.
func (w *relayed) waitNoUpstreams(t *testing.T, up *relay.Upstream) {
	t.Helper()
	check.Succeeds(t, "the connections to end", func() error {
		if u := w.Usage(); u.Upstreams != 0 || up.Conns() != 0 {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})

}

// TestUntakenReply: a response that the client does not read in time ends with a reset.
func TestUntakenReply(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	w.h.onHeaders(func(s *relay.Stream) {
		s.SetDeadline(50 * time.Millisecond)
		s.Reply(pattern(0, 200_000))
	})
	c := rawClient(t, w.addr)
	check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(request("/t.T/Echo")...))))
	if code, err := c.WaitReset(1); err != nil || code != 8 {
		t.Errorf("reset with %d, %v", code, err)
	}
	if r := w.h.results(t, 1)[0]; r.Failure != relay.DeadlineExceeded || r.Code != uint32(codes.DeadlineExceeded) {
		t.Errorf("%+v", r)
	}
	check.Succeeds(t, "the relay to hold nothing", func() error { return emptyHanded(w.Relay) })
}

// TestHTTPAnswers: responses of servers that do not speak gRPC are mapped to statuses.
func TestHTTPAnswers(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	raw := w.rawBackend(t)
	c := rawClient(t, w.addr)
	var p rawPeer
	want := map[string]codes.Code{
		"200": codes.Unknown, "400": codes.Internal, "401": codes.Unauthenticated, "403": codes.PermissionDenied,
		"404": codes.Unimplemented,
		"429": codes.Unavailable, "502": codes.Unavailable, "503": codes.Unavailable, "504": codes.Unavailable,
		"418": codes.Unknown,
	}
	n := 0
	for code, grpc := range want {
		id := uint32(2*n + 1)
		check.Must(t, c.Write(rawhttp2.Headers(id, true, c.Block(request("/t.T/Echo")...))))
		if n == 0 {
			p = raw.accept(t)
		}
		up := p.head(t)
		check.Must(t, p.Write(rawhttp2.Headers(up, true, p.Block(":status", code, "content-type", "text/html"))))
		r, err := c.WaitResponse(id)
		check.Must(t, err)
		if r.Header[":status"] != "200" || r.Header["content-type"] != "application/grpc" ||
			r.Status() != fmt.Sprint(int(grpc)) {
			t.Errorf("%s: %v", code, r)
		}
		n++
		if got := w.h.results(t, n)[n-1].Code; got != uint32(grpc) {
			t.Errorf("%s is code %d, not %d", code, got, grpc)
		}
	}
	id := uint32(2*n + 1)
	check.Must(t, c.Write(rawhttp2.Headers(id, true, c.Block(":method", "GET", ":scheme", "http", ":path", "/t.T/Echo",
		":authority", "x", "content-type", "application/grpc"))))
	if r, err := c.WaitResponse(id); err != nil || r.Header[":status"] != "405" {
		t.Errorf("GET: %v, %v", r, err)
	}
}
