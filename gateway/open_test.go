package gateway_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// watch opens a Health/Watch, which stays open, and returns its gRPC status; "" once it has started.
func watch(t *testing.T, c *rawhttp2.Conn, stream uint32) string {
	t.Helper()
	block := c.Block(":method", "POST", ":scheme", "http", ":authority", "localhost", ":path",
		"/grpc.health.v1.Health/Watch", "content-type", "application/grpc", "te", "trailers")
	if err := c.Write(rawhttp2.Headers(stream, false, block),
		rawhttp2.Data(stream, true, rawhttp2.Message(nil))); err != nil {
		t.Fatal(err)
	}
	f, err := c.Wait(func(f rawhttp2.Frame) bool { return f.Stream == stream && f.Type == rawhttp2.TypeHeaders })
	check.Must(t, err)
	fields, err := c.Fields(f.Payload)
	check.Must(t, err)
	return fields["grpc-status"]
}

// TestWatchesAreBounded: Watch calls without a credential get only a part of the open calls, by connection and
// by address. Ending one makes room for another.
func TestWatchesAreBounded(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
		Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}}})
	var conns []*rawhttp2.Conn
	began := 0
	for range 6 {
		c, err := rawhttp2.Dial(g.Addr)
		if err = errors.Join(err, c.Greet()); err != nil {
			t.Fatal(err)
		}
		check.Cleanup(t, func() { _ = c.Close() })
		conns = append(conns, c)
		for i := range uint32(101) {
			if status := watch(t, c, 2*i+1); status == "" {
				began++
			} else if status != "8" {
				t.Fatalf("status %s", status)
			}
		}
	}
	if began != 512 {
		t.Errorf("%d started, want 5 times 100 and 12", began)
	}
	check.Must(t, errors.Join(conns[0].Write(rawhttp2.Reset(1, 8)), conns[0].Sync()))
	if status := watch(t, conns[0], 1001); status != "" {
		t.Errorf("when one has ended: status %s", status)
	}
}

// TestConnectionsOfANetwork: one address has at most its share of the connections. Neither other addresses nor
// a trusted proxy are held up.
func TestConnectionsOfANetwork(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		ClientAddr: clientaddr.New(clientaddr.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Protocol: clientaddr.V1}),
		Relay: relay.Config{Limits: accept.Limits{MaxNetworkConns: 2}},
	})
	come := func(header string) (*rawhttp2.Conn, error) {
		c, err := rawhttp2.Dial(g.Addr)
		check.Must(t, err)
		check.Cleanup(t, func() { _ = c.Close() })
		return c, errors.Join(c.WriteBytes([]byte(header+"\r\n")), c.Greet(), c.Sync())
	}
	from := func(addr string) string { return fmt.Sprintf("PROXY TCP4 %s 192.0.2.200 1000 80", addr) }
	from6 := func(addr string) string { return fmt.Sprintf("PROXY TCP6 %s 2001:db8::1 1000 80", addr) }
	for _, headers := range [][3]string{
		{from("192.0.2.1"), from("192.0.2.1"), from("192.0.2.1")},
		{from6("2001:db8:1::1"), from6("2001:db8:1::2"), from6("2001:db8:1::3")}, // a /64
	} {
		first, err := come(headers[0])
		check.Must(t, err)
		if _, err := come(headers[1]); err != nil {
			t.Fatal(err)
		}
		if _, err := come(headers[2]); !rawhttp2.Closed(err) {
			t.Errorf("%s has a third connection: %v", headers[2], err)
		}
		if _, err := come(from("192.0.2.2")); err != nil {
			t.Errorf("another address: %v", err)
		}
		_ = first.Close()
		check.Until(t, "the gateway to notice that a connection has ended", func() (bool, string) {
			_, err := come(headers[2])
			if err != nil && !rawhttp2.Closed(err) {
				t.Fatalf("got %v", err)
			}
			return err == nil, fmt.Sprint(err)
		})
	}
	for range 4 {
		if _, err := come("PROXY UNKNOWN"); err != nil {
			t.Errorf("the proxy itself: %v", err)
		}
	}
}

// TestConnectionsOfKnownNetworks: the reserved connections are for networks with a recently authenticated
// client, however many connections others hold.
func TestConnectionsOfKnownNetworks(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		ClientAddr: clientaddr.New(clientaddr.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Protocol: clientaddr.V1}),
		Authenticator: ring.authenticator(),
		// two of them are reserved
		Relay: relay.Config{Limits: accept.Limits{MaxConns: 16, MaxNetworkConns: 16}},
	})
	come := func(addr string) (*rawhttp2.Conn, error) {
		c, err := rawhttp2.Dial(g.Addr)
		check.Must(t, err)
		check.Cleanup(t, func() { _ = c.Close() })
		return c, errors.Join(c.WriteBytes([]byte("PROXY TCP4 "+addr+" 192.0.2.200 1000 80\r\n")), c.Greet(), c.Sync())
	}
	invoke := func(c *rawhttp2.Conn, stream uint32, credential string) string {
		block := c.Block(":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", invokePath,
			"content-type", "application/grpc", "te", "trailers", "x-capability-id", "caps", "authorization",
			"Bearer "+credential)
		check.Must(t, c.Write(rawhttp2.Headers(stream, true, block)))
		f, err := c.Wait(func(f rawhttp2.Frame) bool { return f.Stream == stream && f.Type == rawhttp2.TypeHeaders })
		check.Must(t, err)
		fields, err := c.Fields(f.Payload)
		check.Must(t, err)
		return fields["grpc-status"]
	}
	for addr, credential := range map[string]string{"192.0.2.1": ring.credentials["acme"], "192.0.2.9": "nobody's"} {
		c, err := come(addr)
		check.Must(t, err)
		if refused := invoke(c, 1, credential) == "16"; refused != (credential == "nobody's") {
			t.Errorf("%s: refused %v", addr, refused)
		}
	}
	held := 1 // of 192.0.2.9; that of 192.0.2.1 does not count
	for {
		if _, err := come("192.0.2.2"); err != nil {
			break
		}
		if held++; held > 16 {
			t.Fatal("a network without an authenticated client holds all connections")
		}
	}
	if held != 14 {
		t.Errorf("networks without an authenticated client hold %d connections, want 14", held)
	}
	if _, err := come("192.0.2.9"); err == nil {
		t.Error("a network with an invalid credential got more connections")
	}
	if _, err := come("192.0.2.1"); err != nil {
		t.Errorf("a network with a valid credential: %v", err)
	}
	if got := g.Metrics(t)[`capgate_connections_refused_total{reason="reserved"}`]; got != 2 {
		t.Errorf("%v are counted", got)
	}
}
