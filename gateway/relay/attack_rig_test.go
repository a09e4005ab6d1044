package relay_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// attackHandler forwards calls as headers and message decide, and counts how the streams ended.
type attackHandler struct {
	headers func(*relay.Stream) // decides; required
	message func(*relay.Stream, relay.Message)

	mu    sync.Mutex
	ended map[relay.Failure]int
}

func (h *attackHandler) Headers(s *relay.Stream)                  { h.headers(s) }
func (h *attackHandler) Message(s *relay.Stream, m relay.Message) { h.message(s, m) }

func (h *attackHandler) Unsent(s *relay.Stream, err error) {
	s.Refuse(relay.Status{Code: 14, Message: err.Error()})
}

func (h *attackHandler) Again(*relay.Stream, relay.Answer) bool { return false }

func (h *attackHandler) Explain(_ *relay.Stream, why relay.Failure) relay.Status {
	codes := map[relay.Failure]uint32{
		relay.DeadlineExceeded: 4, relay.MessageTimeout: 4, relay.UpstreamProtocol: 13,
		relay.MemoryExceeded: 8, relay.MessageTooLarge: 8, relay.MessageMalformed: 3,
	}
	code, ok := codes[why]
	if !ok {
		code = 14
	}
	return relay.Status{Code: code, Message: why.String()}
}

func (h *attackHandler) Done(_ *relay.Stream, r *relay.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.ended = map[relay.Failure]int{}
	}
	h.ended[r.Failure]++
}

func (h *attackHandler) count(why relay.Failure) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended[why]
}

// rig is a relay in front of grpc-go's interop server and of a backend that the test plays itself, with a well-behaved
// client.
//
// The path of a call decides what the Handler does: /raw/… goes to the test's backend, /read/… goes to the interop
// server once its first message was read, /refuse/… is refused with a long message, and all others go to the interop
// server at once.
type rig struct {
	t       *testing.T
	relay   *relay.Relay
	handler *attackHandler
	addr    string
	tls     *tls.Config  // for clients; nil means cleartext
	raw     net.Listener // for the test's backend
	good    testgrpc.TestServiceClient
	before  int          // goroutines while only the well-behaved client is connected
	calls   atomic.Int64 // successful calls of the well-behaved client
}

const methodEmpty = "/grpc.testing.TestService/EmptyCall"

func newRig(t *testing.T, cfg relay.Config) *rig { return startRig(t, cfg, nil) }

// newTLSRig returns a rig whose relay serves TLS.
func newTLSRig(t *testing.T, cfg relay.Config) *rig {
	server, client := tlsConfigs(t)
	cfg.TLS, client.NextProtos = server, []string{"h2"}
	return startRig(t, cfg, client)
}

func startRig(t *testing.T, cfg relay.Config, client *tls.Config) *rig {
	t.Helper()
	srv := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(srv, interop.NewTestServer())
	back := check.Listen(t)
	go func() { _ = srv.Serve(back) }()
	check.Cleanup(t, srv.Stop)

	g := &rig{t: t, handler: &attackHandler{}, tls: client, raw: check.Listen(t)}
	check.Cleanup(t, func() { _ = g.raw.Close() })
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.URL.Path)
	})
	g.relay = relay.New(cfg, g.handler, web)
	check.Cleanup(t, g.relay.Close)
	up := g.relay.NewUpstream(relay.UpstreamConfig{Addr: back.Addr().String()})
	raw := g.relay.NewUpstream(relay.UpstreamConfig{Addr: g.raw.Addr().String(), MaxConns: 1,
		DialTimeout: cfg.Timeouts.Setup})
	g.handler.headers = func(s *relay.Stream) {
		switch path := s.Path(); {
		case strings.HasPrefix(path, "/raw/"):
			s.Forward(raw)
		case strings.HasPrefix(path, "/read/"):
			s.SetPath(methodEmpty)
			s.ReadMessage()
		case strings.HasPrefix(path, "/refuse/"):
			s.Refuse(relay.Status{Code: 9, Message: strings.Repeat("no ", 300)})
		default:
			s.Forward(up)
		}
	}
	g.handler.message = func(s *relay.Stream, _ relay.Message) { s.Forward(up) }
	front := check.Listen(t)
	go func() { _ = g.relay.Serve(front) }()
	g.addr = front.Addr().String()

	g.good = testgrpc.NewTestServiceClient(g.grpc())
	for range 2 * runtime.GOMAXPROCS(0) { // each shard has its own connection to the backend
		g.call()
		other := g.grpc()
		interop.DoEmptyUnaryCall(t.Context(), testgrpc.NewTestServiceClient(other), grpc.WaitForReady(true))
		_ = other.Close()
	}
	check.Succeeds(t, "the relay to hold one client alone", func() error {
		g.call()
		return g.holds(relay.Usage{Clients: 1})
	})

	g.before = runtime.NumGoroutine()
	return g
}

// grpc returns a client connection of grpc-go.
func (g *rig) grpc() *grpc.ClientConn {
	if g.tls == nil {
		return dialGRPC(g.t, g.addr)
	}
	return dialGRPC(g.t, g.addr, grpc.WithTransportCredentials(credentials.NewTLS(g.tls)))
}

// call makes a call of the well-behaved client, which must succeed.
func (g *rig) call() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), check.Patience)
	defer cancel()
	if _, err := g.good.EmptyCall(ctx, &testgrpc.Empty{}, grpc.WaitForReady(true)); err != nil {
		g.t.Errorf("another client's call: %v", err)
		return
	}
	g.calls.Add(1)
}

// limits are the resources that an attack may use, in addition to those of the idle rig.
type limits struct {
	buffers    int
	goroutines int
	streams    int
}

// during runs an attack while the well-behaved client makes calls and the relay's usage is watched. Then it waits until
// the relay has released what the attack used. At least one call must succeed during the attack. A short attack makes
// that call itself.
func (g *rig) during(most limits, attack func()) {
	g.t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for !g.t.Failed() {
			select {
			case <-stop:
				return
			default:
				g.call()
				g.within(most)
			}
		}
	}()
	func() {
		defer func() { // even if attack ends the test
			close(stop)
			<-stopped
		}()
		before := g.calls.Load()
		attack()
		if g.calls.Load() == before {
			g.t.Error("no call of another client succeeded during the attack")
		}
		g.call()
		g.within(most)
	}()
	g.atRest()
}

func (g *rig) within(most limits) {
	u := g.relay.Usage()
	if u.Buffers > most.buffers || u.Streams > most.streams+1 {
		g.t.Errorf("usage %+v, at most %+v expected", u, most)
	}
	// The test runs two goroutines more than at rest, and a call needs some.
	if n := runtime.NumGoroutine() - g.before; n > most.goroutines+6 {
		g.t.Errorf("%d more goroutines, at most %d expected", n, most.goroutines)
	}
}

// atRest waits until the relay holds what it held before the attack.
func (g *rig) atRest() {
	g.t.Helper()
	g.settled(relay.Usage{Clients: 1})
	check.Succeeds(g.t, "the goroutines to end", func() error {
		if n := runtime.NumGoroutine(); n > g.before+2 {
			return fmt.Errorf("%d goroutines, %d before", n, g.before)
		}
		return nil
	})

}

// settled waits until the relay holds only client connections.
func (g *rig) settled(want relay.Usage) {
	g.t.Helper()
	check.Succeeds(g.t, "the relay to hold what is wanted", func() error { return g.holds(want) })
}

// holds returns an error if the relay does not hold exactly want.
func (g *rig) holds(want relay.Usage) error {
	u := g.relay.Usage()
	u.Upstreams = 0
	if u != want {
		return fmt.Errorf("usage %+v, want %+v", u, want)
	}
	return nil
}

// attacker returns a connection after its handshake.
func (g *rig) attacker(settings ...rawhttp2.Setting) *rawhttp2.Conn {
	g.t.Helper()
	c := g.dial()
	check.Must(g.t, c.Greet(settings...))
	return c
}

// dial returns a connection before its handshake.
func (g *rig) dial() *rawhttp2.Conn {
	g.t.Helper()
	c, err := rawhttp2.Dial(g.addr)
	check.Must(g.t, err)
	if g.tls != nil {
		c = rawhttp2.New(tls.Client(c.Conn, g.tls))
	}
	check.Cleanup(g.t, func() { _ = c.Close() })
	return c
}

// backend waits for the relay's connection to the test's backend.
func (g *rig) backend(settings ...rawhttp2.Setting) *rawhttp2.Conn {
	g.t.Helper()
	check.Must(g.t, g.raw.(*net.TCPListener).SetDeadline(time.Now().Add(check.Patience)))
	nc, err := g.raw.Accept()
	if err != nil {
		g.t.Fatalf("the relay's connection: %v", err)
	}
	check.Cleanup(g.t, func() { _ = nc.Close() })
	c := rawhttp2.New(nc)
	check.Must(g.t, c.Welcome(settings...))
	return c
}

// sink plays a backend that reads everything and never responds.
func (g *rig) sink() {
	go func() {
		nc, err := g.raw.Accept()
		if err != nil {
			return
		}
		check.Cleanup(g.t, func() { _ = nc.Close() })
		c := rawhttp2.New(nc)
		c.Timeout = time.Hour
		if err := c.Welcome(); err == nil {
			_ = c.Drain() // whole frames only: a header block may span several
		}
	}()
}

// request returns the header fields of a gRPC request.
func request(path string, more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "test",
		"content-type", "application/grpc", "te", "trailers"}, more...)
}

// wantGoAway reads until the relay has closed the connection, which must be with this code, and closes it too.
func wantGoAway(c *rawhttp2.Conn, want uint32) error {
	defer func() { _ = c.Close() }()
	got, err := c.WaitGoAway()
	if err == nil && got != want {
		err = fmt.Errorf("GOAWAY with error %d, want %d", got, want)
	}
	return err
}

// tlsConfigs returns the configuration of a server, and that of clients that trust it.
func tlsConfigs(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil) // for its certificate
	srv.StartTLS()
	check.Cleanup(t, srv.Close)
	client = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.ServerName = "example.com"
	return &tls.Config{Certificates: srv.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}, client
}

func (h *attackHandler) Started(*relay.Stream) {}

func (h *attackHandler) Exceeded(*relay.Stream, relay.Failure) bool { return true }
