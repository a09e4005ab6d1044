package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// guarded returns the guard of an admin API with one operator, and the operator's key.
func guarded() (g *guard.Guard, key string) {
	id, secret := tenant.NewCredential()
	keys := guard.NewKeys(nil)
	keys.Replace([]guard.Key{{ID: id, Hash: tenant.HashOf(secret, nil), Roles: operator.View}}, nil)
	return guard.New(guard.Config{Authenticators: []guard.Authenticator{keys}}), tenant.Credential(id, secret)
}

// dialFrom dials addr from another loopback address, which counts as another network.
func dialFrom(t *testing.T, local, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}, Timeout: check.Patience}
	nc, err := d.DialContext(t.Context(), "tcp", addr)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = nc.Close() })
	return nc
}

// askAdmin sends a request over HTTP/1.1 and reads the response header.
func askAdmin(nc net.Conn, path, key string) error {
	err := nc.SetDeadline(time.Now().Add(check.Patience))
	if err == nil {
		_, err = fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, key)
	}
	if err != nil {
		return err
	}
	b := make([]byte, 64<<10)
	n, err := nc.Read(b)
	if err == nil && !strings.HasPrefix(string(b[:n]), "HTTP/1.1 200") {
		err = errors.New(string(b[:n]))
	}
	return err
}

// TestAdminPortIsNotFilled: clients without a credential, on several networks including the operator's, can
// neither break an operator's connection nor prevent a new one.
func TestAdminPortIsNotFilled(t *testing.T) {
	t.Parallel()
	by, key := guarded()
	g := gatewaytest.Start(t, gatewaytest.Options{Guard: by})
	held := dialFrom(t, "127.0.0.1", g.AdminAddr)
	check.Must(t, askAdmin(held, "/debug/pprof/cmdline", key))
	for _, networks := range [][]string{{"127.0.0.2", "127.0.0.3"}, {"127.0.0.1"}} {
		for _, local := range networks {
			for range 150 {
				dialFrom(t, local, g.AdminAddr)
			}
		}
		if err := askAdmin(dialFrom(t, "127.0.0.1", g.AdminAddr), "/debug/pprof/cmdline", key); err != nil {
			t.Errorf("a new connection of the operator while %v hold many: %v", networks, err)
		}
		if err := askAdmin(held, "/debug/pprof/cmdline", key); err != nil {
			t.Errorf("the operator's open connection while %v hold many: %v", networks, err)
		}
	}
	want := `capgate_admin_connections_refused_total{reason="evicted"} `
	if status, body := adminGet(t, g, "/metrics", key); status != http.StatusOK || !strings.Contains(body, want) ||
		strings.Contains(body, want+"0\n") {
		t.Errorf("/metrics: %d, without %s", status, want)
	}
	if !strings.Contains(g.Log.String(), "connection without a credential closed") {
		t.Error("the log does not mention the closed connections")
	}
}

func adminGet(t *testing.T, g *gatewaytest.Gateway, path, key string) (code int, body string) {
	t.Helper()
	resp, b := clienttest.Send(t, clienttest.HTTP, http.MethodGet, "http://"+g.AdminAddr+path, "", "Authorization",
		"Bearer "+key)
	return resp.StatusCode, b
}

// TestAdminHeadersAreBounded: a client without a credential cannot make the server hold large headers or many
// streams, however well HPACK compresses them.
func TestAdminHeadersAreBounded(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.AdminAddr+"/livez", http.NoBody)
	check.Must(t, err)
	r.Header.Set("Cookie", strings.Repeat("a", 40<<10))
	resp, err := clienttest.HTTP.Do(r)
	check.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 40 KiB: %s", resp.Status)
	}
	c, err := rawhttp2.Dial(g.AdminAddr)
	check.Must(t, err)
	defer c.Close()
	check.Must(t, c.Greet())
	cookie := strings.Repeat("c", 1000)
	fields := []string{":method", "GET", ":scheme", "http", ":path", "/livez", ":authority", "localhost"}
	for range 300 { // 300 KB that HPACK encodes in a few bytes
		fields = append(fields, "cookie", cookie)
	}
	check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(fields...))))
	got, err := c.WaitResponse(1)
	if err != nil || got.Status() == "200" {
		t.Errorf("headers of 300 KB over HTTP/2: %v, %v", got, err)
	}
}

// TestAdminStreamsAreBounded: if a connection has too many open requests, further ones are rejected.
func TestAdminStreamsAreBounded(t *testing.T) {
	t.Parallel()
	c := openCalls(t, 40, gatewaytest.Options{Operators: waitForBodies})
	f, err := c.Wait(func(f rawhttp2.Frame) bool {
		return f.Type == rawhttp2.TypeReset || f.Type == rawhttp2.TypeGoAway
	})
	if err != nil || f.Type != rawhttp2.TypeReset {
		t.Errorf("got %v, %v", f, err)
	}
}

// TestAdminBodiesDoNotStall: requests whose bodies never arrive end, including those of gRPC.
func TestAdminBodiesDoNotStall(t *testing.T) {
	t.Parallel()
	c := openCalls(t, 1, gatewaytest.Options{Operators: waitForBodies, Stall: stall})
	if got, err := c.WaitResponse(1); err != nil || string(got.Body) != "i/o timeout" {
		t.Errorf("got %v, %v", got, err)
	}
}

// waitForBodies adds a method whose handler reads the whole request and sends the read error.
func waitForBodies(m *guard.Mux) {
	m.HandleRPC("POST /test.Service/Wait", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, err)
	}))
}

// openCalls starts calls of that method over one connection.
func openCalls(t *testing.T, n int, o gatewaytest.Options) *rawhttp2.Conn {
	t.Helper()
	c, err := rawhttp2.Dial(gatewaytest.Start(t, o).AdminAddr)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = c.Close() })
	check.Must(t, c.Greet())
	for i := range n {
		check.Must(t, c.Write(rawhttp2.Headers(uint32(2*i+1), false, c.Block(":method", "POST", ":scheme", "http",
			":path", "/test.Service/Wait", ":authority", "localhost", "content-type", "application/grpc", "te",
			"trailers"))))
	}
	return c
}
