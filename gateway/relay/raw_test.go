package relay_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// rawClient returns a client connection whose frames the test writes itself.
func rawClient(t testing.TB, addr string, settings ...rawhttp2.Setting) *rawhttp2.Conn {
	t.Helper()
	c, err := rawhttp2.Dial(addr)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = c.Close() })
	check.Must(t, c.Greet(settings...))
	return c
}

// rawBackend accepts the relay's connections. The test writes every frame.
type rawBackend struct{ net.Listener }

// rawBackend replaces the backend of a relayed by the test.
func (w *relayed) rawBackend(t testing.TB) rawBackend {
	ln := check.Listen(t)
	check.Cleanup(t, func() { _ = ln.Close() })
	w.h.to(w.NewUpstream(relay.UpstreamConfig{Addr: ln.Addr().String()}))
	return rawBackend{ln}
}

// rawPeer is one of the relay's connections to a rawBackend.
type rawPeer struct {
	*rawhttp2.Conn
	socket *net.TCPConn
}

func (b rawBackend) accept(t testing.TB, settings ...rawhttp2.Setting) rawPeer {
	t.Helper()
	check.Must(t, b.Listener.(*net.TCPListener).SetDeadline(time.Now().Add(check.Patience)))
	nc, err := b.Accept()
	if err != nil {
		t.Fatalf("the relay's connection: %v", err)
	}
	check.Cleanup(t, func() { _ = nc.Close() })
	c := rawhttp2.New(nc)
	check.Must(t, c.Welcome(settings...))
	return rawPeer{c, nc.(*net.TCPConn)}
}

// head waits for the next request and returns its stream.
func (p rawPeer) head(t testing.TB) uint32 {
	t.Helper()
	f, err := p.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeHeaders })
	check.Must(t, err)
	if !f.Has(rawhttp2.EndHeaders) {
		t.Fatal("long request headers")
	}
	_, err = p.Fields(f.Payload)
	check.Must(t, err)
	return f.Stream
}

// body reads a request's DATA to its end.
func (p rawPeer) body(t testing.TB, id uint32) []byte {
	t.Helper()
	return p.bodies(t, 1)[id]
}

// bodies reads until n requests are complete.
func (p rawPeer) bodies(t testing.TB, n int) map[uint32][]byte {
	t.Helper()
	all := map[uint32][]byte{}
	for n > 0 {
		f, err := p.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeData })
		check.Must(t, err)
		all[f.Stream] = append(all[f.Stream], f.Payload...)
		if f.Has(rawhttp2.EndStream) {
			n--
		} else if size := uint32(len(f.Payload)); size > 0 {
			check.Must(t, p.Write(rawhttp2.WindowUpdate(f.Stream, size), rawhttp2.WindowUpdate(0, size)))
		}
	}
	return all
}

// reply sends a complete response.
func (p rawPeer) reply(t testing.TB, id uint32, data []byte) {
	t.Helper()
	check.Must(t, p.Write(
		rawhttp2.Headers(id, false, p.Block(":status", "200", "content-type", "application/grpc")),
		rawhttp2.Data(id, false, data),
		rawhttp2.Headers(id, true, p.Block("grpc-status", "0"))))
}

// wantUsage compares the relay's usage, without upstream connections.
func wantUsage(r *relay.Relay, want relay.Usage) error {
	u := r.Usage()
	u.Upstreams = 0
	if u != want {
		return fmt.Errorf("usage %+v, not %+v", u, want)
	}
	return nil
}
