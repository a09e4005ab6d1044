package relay_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// held waits until the relay's buffers do not change for a while, and returns their size.
func held(t testing.TB, r *relay.Relay) int {
	t.Helper()
	same, last := 0, -1
	check.Succeeds(t, "the buffers to stay the same", func() error {
		if u := r.Usage(); u.Buffers == last {
			same++
		} else {
			same, last = 0, u.Buffers
		}
		if same < 30 {
			return fmt.Errorf("the relay still works, with %d bytes", last)
		}
		return nil
	})

	return last
}

// TestSlowReaders: backends send to clients that do not read. The relay buffers little, stops the backends, and
// delivers everything once the clients read.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const streams, messages, size = 40, 10, 100_000
	w := newRelayed(t, relay.Config{})
	// The client grants only a small window: the backends stop until it reads.
	cc := dialRaw(t, w.addr, grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(65535))
	var calls []grpc.ClientStream
	for range streams {
		s := stream(w.ctx, t, cc, "Count")
		check.Must(t, send(s, fmt.Appendf(nil, "%d %d", messages, size)))
		check.Must(t, s.CloseSend())
		calls = append(calls, s)
	}
	// The relay may hold one window of each stream, and the socket's buffer.
	if n, most := held(t, w.Relay), streams*(128<<10)+1<<20; n > most || n < 65535 {
		t.Errorf("the relay holds %d bytes, and should at most %d", n, most)
	}
	if _, err := unary(w.ctx, w.cc, "Echo", pattern(1, 1<<20)); err != nil {
		t.Errorf("another client meanwhile: %v", err)
	}
	var all sync.WaitGroup
	for _, s := range calls {
		all.Go(func() {
			for i := range messages {
				if got, err := recv(s); err != nil || !bytes.Equal(got, pattern(i, size)) {
					t.Errorf("message %d: %d bytes, %v", i, len(got), err)
					return
				}
			}
			if _, err := recv(s); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.h.results(t, streams+1)
	check.Succeeds(t, "the relay to hold nothing", func() error { return emptyHanded(w.Relay) })
}

// TestSlowBackend: clients send to backends that do not read.
func TestSlowBackend(t *testing.T) {
	t.Parallel()
	for _, read := range []bool{false, true} {
		t.Run(fmt.Sprintf("read %v", read), func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{}, grpc.InitialWindowSize(65535), grpc.InitialConnWindowSize(65535))
			if read {
				w.h.onHeaders((*relay.Stream).ReadMessage)
			}
			const streams = 20
			var all sync.WaitGroup
			for i := range streams {
				s := stream(w.ctx, t, w.cc, "Hold")
				all.Go(func() {
					for send(s, pattern(i, 100_000)) == nil { // until the call has ended
					}
					if _, err := recv(s); err != nil {
						t.Error(err)
					}
				})
				check.Received(t, w.back.started, "the start of the call at the backend")
			}
			// A window of bytes waits, and as many are kept for a retry. The first message is longer than either.
			if n, most := held(t, w.Relay), streams*(512<<10)+1<<20; n > most {
				t.Errorf("the relay holds %d bytes, and should at most %d", n, most)
			}
			close(w.back.release)
			all.Wait()
			check.Succeeds(t, "the relay to hold nothing", func() error { return emptyHanded(w.Relay) })
		})
	}
}

// emptyHanded returns an error if a relay without calls still holds memory.
func emptyHanded(r *relay.Relay) error {
	if u := r.Usage(); u.Streams != 0 || u.Buffers != 0 {
		return fmt.Errorf("the relay holds %+v", u)
	}
	return nil
}

// TestMaxBuffered: calls end when all of them hold too much memory together, and the relay recovers.
func TestMaxBuffered(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Memory: relay.Memory{MaxBuffered: 1 << 20}, Shards: 1})
	cc := dialRaw(t, w.addr, grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(65535))
	var calls []grpc.ClientStream
	for range 40 {
		s := stream(w.ctx, t, cc, "Count")
		_ = send(s, []byte("4 100000"))
		_ = s.CloseSend()
		calls = append(calls, s)
	}
	w.h.results(t, 1) // no stream is read, so a call ends for lack of memory
	if n := held(t, w.Relay); n > 6<<20 {
		t.Errorf("the relay holds %d bytes", n)
	}
	for _, s := range calls {
		var err error
		for err == nil {
			_, err = recv(s)
		}
	}
	// The relay's results count: a client reports a call that ends in the middle of a message in its own way.
	full := 0
	for _, r := range w.h.results(t, len(calls)) {
		if r.Failure == relay.MemoryExceeded && codes.Code(r.Code) == codes.ResourceExhausted {
			full++
		}
	}
	if full == 0 || full == len(calls) {
		t.Errorf("%d of %d calls were ended for want of memory", full, len(calls))
	}
	if _, err := unary(w.ctx, w.cc, "Echo", pattern(1, 500_000)); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestStreamLimit: calls queue for a backend that accepts few streams at a time.
func TestStreamLimit(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]relay.UpstreamConfig{"many connections": {}, "one connection": {MaxConns: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRelayed(t, relay.Config{Shards: 1}, grpc.MaxConcurrentStreams(10))
			cfg.Addr = w.back.addr
			w.h.to(w.NewUpstream(cfg))
			w.h.onUnsent(func(s *relay.Stream, err error) {
				t.Errorf("Unsent: %v", err)
				s.Refuse(relay.Status{Code: 14})
			})
			var all sync.WaitGroup
			for i := range 200 {
				all.Go(func() {
					if got, err := unary(w.ctx, w.cc, "Echo", pattern(i, 1000)); err != nil ||
						!bytes.Equal(got, pattern(i, 1000)) {
						t.Error(err, got)
					}
				})
			}
			all.Wait()
			if n := w.h.target().Conns(); n > 16 || cfg.MaxConns == 1 && n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestQueueFull: streams are refused if too many wait.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Shards: 1}, grpc.MaxConcurrentStreams(1))
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: w.back.addr, MaxConns: 1, MaxQueue: 5}))
	if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil { // connects
		t.Fatal(err)
	}
	errs := make(chan error, 20)
	for range 20 {
		go func() {
			_, err := unary(w.ctx, w.cc, "Hold", nil)
			errs <- err
		}()
	}
	for range 14 {
		err := check.Received(t, errs, "the error")
		if status.Convert(err).Message() != "unsent: "+relay.ErrQueueFull.Error() {
			t.Errorf("%v", err)
		}
	}
	close(w.back.release)
	for range 6 {
		if err := check.Received(t, errs, "the error"); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestIdleUpstream: idle connections are closed, and dialed again when needed.
func TestIdleUpstream(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Timeouts: relay.Timeouts{Idle: 30 * time.Millisecond}, Shards: 1})
	for range 3 {
		if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
			t.Fatal(err)
		}
		check.Succeeds(t, "the connections to end", func() error {
			if u := w.Usage(); w.h.target().Conns() != 0 || u.Upstreams != 0 || u.Clients != 0 {
				return fmt.Errorf("%+v, %d connections", u, w.h.target().Conns())
			}
			return nil
		})

	}
}

// TestKeepAlive: a silent backend gets PINGs, and is disconnected if it does not answer one.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Timeouts: relay.Timeouts{Ping: 2 * time.Second}})
	ln := check.Listen(t)
	check.Cleanup(t, func() { _ = ln.Close() })
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: ln.Addr().String(), KeepAlive: 30 * time.Millisecond}))
	raw := rawBackend{ln}
	s := stream(w.ctx, t, w.cc, "Echo")
	p := raw.accept(t)
	p.head(t)
	for range 3 {
		f, err := p.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypePing && !f.Has(rawhttp2.Ack) })
		check.Must(t, err)
		check.Must(t, p.Write(rawhttp2.Pong(f)))
	}
	// The backend does not answer the next PING.
	if _, err := recv(s); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if r := w.h.results(t, 1)[0]; r.Failure != relay.UpstreamLost {
		t.Errorf("%+v", r)
	}
}

// TestCheck: Check sends a PING long before the keep-alive interval, and ends the connection if there is no answer.
func TestCheck(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Timeouts: relay.Timeouts{Ping: time.Nanosecond}})
	raw := w.rawBackend(t)
	s := stream(w.ctx, t, w.cc, "Echo")
	p := raw.accept(t)
	p.head(t)
	w.h.target().Check()
	_, err := p.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypePing && !f.Has(rawhttp2.Ack) })
	check.Must(t, err)
	if _, err := recv(s); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if r := w.h.results(t, 1)[0]; r.Failure != relay.UpstreamLost {
		t.Errorf("%+v", r)
	}
}

// TestUpstreamClose: calls of a closed upstream finish, as does a later one. Its connections close when they are empty.
func TestUpstreamClose(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	s := stream(w.ctx, t, w.cc, "Echo")
	check.Must(t, send(s, []byte("1")))
	_, err := recv(s)
	check.Must(t, err)
	w.h.target().Close()
	if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
		t.Error("while there is a connection: ", err)
	}
	check.Must(t, send(s, []byte("2")))
	if got, err := recv(s); err != nil || string(got) != "2" {
		t.Error(err, string(got))
	}
	check.Must(t, s.CloseSend())
	wantEOF(t, s)
	w.waitNoUpstreams(t, w.h.target())
	if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
		t.Error("when there is none any more: ", err)
	}
	w.waitNoUpstreams(t, w.h.target())
}

// TestSetTLS: a new TLS configuration applies to new connections. Open ones stay.
func TestSetTLS(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{Shards: 1})
	server, client := tlsConfigs(t)
	server.NextProtos = []string{"h2"}
	var there atomic.Pointer[backend]
	there.Store(serveBackend(t, tls.NewListener(check.Listen(t), server)))
	up := w.NewUpstream(relay.UpstreamConfig{TLS: client,
		Dial: func(context.Context) (net.Conn, error) { return net.Dial("tcp", there.Load().addr) }})
	w.h.to(up)
	if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
		t.Fatal(err)
	}
	up.SetTLS(&tls.Config{ServerName: client.ServerName, RootCAs: x509.NewCertPool()}) // trusts no certificate
	if _, err := unary(w.ctx, w.cc, "Echo", nil); err != nil {
		t.Error("by the connection that is there: ", err)
	}
	before := there.Swap(serveBackend(t, tls.NewListener(check.Listen(t), server)))
	var leaving sync.WaitGroup
	leaving.Go(before.srv.GracefulStop)
	check.Ended(t, &leaving, "the end of the connections to a backend that says goodbye")
	check.Succeeds(t, "the connections to end", func() error {
		if n := up.Conns(); n != 0 {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})

	if _, err := unary(w.ctx, w.cc, "Echo", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("by one that trusts nobody: %v", err)
	}
	up.SetTLS(client)
	check.Succeeds(t, "a call to succeed", func() error {
		_, err := unary(w.ctx, w.cc, "Echo", nil)
		return err
	})

}
