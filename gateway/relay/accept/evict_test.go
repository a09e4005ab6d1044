package accept_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/check"
)

// serve starts a Server for HTTP/1.1 and returns its address.
func serve(t *testing.T, limits accept.Limits, h http.Handler) (*accept.Server, string) {
	s := accept.New(accept.Config{Log: slog.New(slog.DiscardHandler), MaxHeaderList: 64 << 10,
		SetupTimeout: check.Patience, IdleTimeout: check.Patience, Limits: limits}, nil, h)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln, &accept.Port{}) }()
	check.Cleanup(t, func() {
		s.Close()
		s.Wait()
		check.Must(t, check.Received(t, served, "the end of serving"))
	})
	return s, ln.Addr().String()
}

// TestUnauthenticatedConnectionsAreEvicted: at the limit, a new connection evicts the oldest one without a credential,
// of its own network or else of the network with the most connections. Connections with a credential stay. If all have
// one, the new connection is closed.
func TestUnauthenticatedConnectionsAreEvicted(t *testing.T) {
	t.Parallel()
	var s *accept.Server
	h := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/known" {
			s.Authenticated(accept.PeerOf(req.Context()))
		}
	})
	ready := make(chan struct{})
	s, addr := serve(t, accept.Limits{Evict: true, MaxConns: 4, MorePorts: 4, MaxNetworkConns: 3,
		Network: func(a net.Addr) (netip.Prefix, bool) {
			return netip.PrefixFrom(a.(*net.TCPAddr).AddrPort().Addr().Unmap(), 32), true
		}}, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { <-ready; h(rw, req) }))
	close(ready)
	dial := func(local string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
		nc, err := d.DialContext(t.Context(), "tcp", addr)
		check.Must(t, err)
		check.Cleanup(t, func() { _ = nc.Close() })
		return nc
	}
	get := func(nc net.Conn, path string) error {
		_ = nc.SetDeadline(time.Now().Add(check.Patience))
		_, err := io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if err == nil {
			_, err = nc.Read(make([]byte, 1000))
		}
		return err
	}
	open := func(local, path string) net.Conn {
		nc := dial(local)
		check.Must(t, get(nc, path))
		return nc
	}
	evicted := func(want int64) {
		t.Helper()
		if got := s.Rejections().Evicted; got != want {
			t.Errorf("%d have ended, want %d", got, want)
		}
	}
	old, second, other := open("127.0.0.2", "/"), open("127.0.0.2", "/"), open("127.0.0.3", "/")
	kept := open("127.0.0.3", "/known")
	evicted(0)
	fourth := open("127.0.0.4", "/") // over the limit: evicts from the network with the most
	evicted(1)
	if get(old, "/") == nil {
		t.Error("the oldest is still there")
	}
	check.Must(t, get(second, "/known"))
	check.Must(t, get(other, "/known"))
	check.Must(t, get(fourth, "/known"))
	evicted(1)
	if get(dial("127.0.0.5"), "/") == nil {
		t.Error("there are more connections than there may be")
	}
	for _, nc := range []net.Conn{kept, second, other, fourth} {
		check.Must(t, get(nc, "/"))
	}
	if got := s.Rejections(); got.Network != 1 || got.Evicted != 1 {
		t.Errorf("%+v", got)
	}
}
