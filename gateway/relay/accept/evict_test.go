package relay_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestGuestsMakeRoom: at a limit the oldest connection without a credential ends: of the network itself, or of the one
// with the most. Those with a credential stay, and without others a new connection is closed.
func TestGuestsMakeRoom(t *testing.T) {
	t.Parallel()
	var r *relay.Relay
	h := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/known" {
			r.Authenticated(relay.ClientOf(req.Context()))
		}
	})
	ready := make(chan struct{})
	r, addr := serveRelay(t, relay.Config{Evict: true, WebOnly: true, MaxConns: 4, MorePorts: 4, MaxNetworkConns: 3,
		Network: func(a net.Addr) (netip.Prefix, bool) {
			return netip.PrefixFrom(a.(*net.TCPAddr).AddrPort().Addr().Unmap(), 32), true
		}}, nil, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { <-ready; h(rw, req) }))
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
		if got := r.Crowding().Evicted; got != want {
			t.Errorf("%d have ended, want %d", got, want)
		}
	}
	old, second, other := open("127.0.0.2", "/"), open("127.0.0.2", "/"), open("127.0.0.3", "/")
	kept := open("127.0.0.3", "/known")
	evicted(0)
	fourth := open("127.0.0.4", "/") // all four are there: of the network with the most
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
	if got := r.Crowding(); got.Network != 1 || got.Evicted != 1 {
		t.Errorf("%+v", got)
	}
}
