package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// from dials from one of the loopback addresses.
func from(addr string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
}

// TestHandshakesOfOneNetworkDoNotKeepOthersOut: one address floods the gateway with TLS handshakes: some never
// end and hold its maximum of connections, and new ones wait for a processor. A client at another address is
// served meanwhile.
func TestHandshakesOfOneNetworkDoNotKeepOthersOut(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}},
		Exempt: []netip.Prefix{}, // none trusted: 127.0.0.2 and 127.0.0.3 are networks
		Relay: relay.Config{TLS: &tls.Config{Certificates: []tls.Certificate{ca.Server(t)}},
			Limits: accept.Limits{MaxConns: 64, MaxNetworkConns: 48, MaxHandshakes: 2}},
	})
	shake := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost", NextProtos: []string{"h2"}}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer func() { check.Ended(t, &all, "the end of the handshakes") }()
	defer stop()
	for i := range 64 { // the maximum of connections
		all.Go(func() {
			for ctx.Err() == nil {
				if nc, err := from("127.0.0.2").DialContext(ctx, "tcp", g.Addr); err == nil {
					shakeHands(ctx, nc, shake, i%3 == 0)
					_ = nc.Close()
				}
			}
		})
	}
	for _, reason := range []string{"network", "handshake"} {
		check.Holds(t, "a connection to be refused by "+reason, func() bool {
			return g.Metrics(t)[`capgate_connections_refused_total{reason="`+reason+`"}`] > 0
		})
	}
	for range 5 { // each client has a connection of its own
		conn, err := clienttest.NewConn("passthrough:///"+g.Addr,
			grpc.WithTransportCredentials(credentials.NewTLS(shake)),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return from("127.0.0.3").DialContext(ctx, "tcp", addr)
			}))
		check.Must(t, err)
		if _, err = gatewaytest.NewClient(conn, call.Doc).Invoke(to(t.Context(), "caps"),
			request(gatewaytest.Echo, "{}"), grpc.WaitForReady(true)); err != nil {
			t.Errorf("a client at another address: %v", err)
		}
		if err = errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// shakeHands starts a handshake that costs the gateway computation. Then it waits until the gateway closes the
// connection, or closes it at once.
func shakeHands(ctx context.Context, nc net.Conn, shake *tls.Config, waits bool) {
	defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
	_ = tls.Client(&silentConn{Conn: nc}, shake).HandshakeContext(ctx)
	if waits {
		_, _ = io.Copy(io.Discard, nc)
	}
}

// silentConn sends nothing after the first flight of a handshake.
type silentConn struct {
	net.Conn
	said bool
}

var errMute = errors.New("nothing more is said")

func (m *silentConn) Write(p []byte) (int, error) {
	if m.said {
		return 0, errMute
	}
	m.said = true
	return m.Conn.Write(p)
}
