package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// startBehind is startFront behind proxies.
func startBehind(t *testing.T, e *clientaddr.Resolver, client, backend call.Dialect) *front {
	t.Helper()
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, backend)
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		ClientAddr: e,
		Fleets:     []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}},
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, client)
	return f
}

// assertions are headers in which a caller names itself or its address. The marked ones are accepted from a
// trusted proxy.
var assertions = []struct {
	name, value string
	trusted     string // received by the backend through a trusted proxy
}{
	{"x-forwarded-for", "6.6.6.6, 192.0.2.1", "192.0.2.1"},
	{"x-forwarded-proto", "https", "https"},
	{"x-forwarded-host", "caps.example.com", "caps.example.com"},
	{"x-forwarded-port", "443", "443"},
	{"x-forwarded-client-cert", "Hash=0", ""},
	{"x-forwarded-user", "mallory", ""},
	{"forwarded", "for=6.6.6.6", ""},
	{"x-real-ip", "6.6.6.6", ""},
	{"cookie", "session=mallory", ""},
	{"proxy-authorization", "Basic bWFsbG9yeQ==", ""},
	{"x-tenant-id", "mallory", ""},
	{"x-user-id", "mallory", ""},
	{"x-agent-id", "mallory", ""},
	{"x-capgate-origin", "client=6.6.6.6&proto=gopher", ""},
	{"x-capgate-caller", "tenant=acme&scopes=admin", ""},
	{"grpc-metadata-x-tenant-id", "mallory", ""},
	{"grpc-metadata-authorization", "Bearer mallory", ""},
	{"grpc-metadata-x-capgate-caller", "tenant=acme", ""},
	{"grpc-metadata-x-capgate-origin", "client=6.6.6.6", ""},
}

// TestAssertionsAreStripped: at every door and in every dialect, a caller's statements about itself do not
// reach a backend, except for the client address of a trusted proxy.
func TestAssertionsAreStripped(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		cfg := clientaddr.Config{}
		client := "127.0.0.1"
		if trusted {
			cfg.Trusted, client = loopback, "192.0.2.1"
		}
		t.Run("trusted "+strconv.FormatBool(trusted), func(t *testing.T) {
			eachPair(t, func(t *testing.T, from, to call.Dialect) {
				f := startBehind(t, clientaddr.New(cfg), from, to)
				ctx := t.Context()
				for _, a := range assertions {
					ctx = metadata.AppendToOutgoingContext(ctx, a.name, a.value)
				}
				if _, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`)); err != nil {
					t.Fatal(err)
				}
				if _, err := f.client.Upload(metadata.AppendToOutgoingContext(ctx, "x-capability-id", "caps"),
					gatewaytest.File{Data: []byte("x")}); err != nil {
					t.Fatal(err)
				}
				var header []string
				for _, a := range assertions {
					header = append(header, a.name, a.value)
				}
				for _, p := range protocols {
					if resp, body := post(t, p.client(f.gateway, t), f.gateway, "caps", `{"tool_name":"echo"}`,
						header...); resp.StatusCode != 200 {
						t.Fatal(p.name, resp.Status, body)
					}
				}
				for _, s := range f.capability.Seen() {
					for _, a := range assertions {
						want := ""
						if trusted {
							want = a.trusted
						}
						if got := strings.Join(s.Metadata.Get(a.name), "|"); got != want {
							t.Errorf("%s: %s is %q, want %q", s.Path, a.name, got, want)
						}
					}
				}
				for i, line := range f.gateway.Log.Calls(t, 2+len(protocols)) {
					if got := line.Text("client"); got != client {
						t.Errorf("call %d comes from %q, want %q", i, got, client)
					}
				}
			})
		})
	}
}

// TestClientsDoNotChooseTheirAddress: a client's text in a trusted proxy's Forwarded header is not read as an
// address.
func TestClientsDoNotChooseTheirAddress(t *testing.T) {
	t.Parallel()
	f := startBehind(t, clientaddr.New(clientaddr.Config{Trusted: loopback, Header: clientaddr.Forwarded}), call.Doc,
		call.Doc)
	sent := []string{
		`for=192.0.2.1;host="x,for=6.6.6.6"`, `for=6.6.6.6;x=", for=192.0.2.1`, `host="x;for=6.6.6.6";for=192.0.2.1`,
	}
	for _, header := range sent {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "forwarded", header)
		_, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`))
		check.Must(t, err)
	}
	for i, line := range f.gateway.Log.Calls(t, len(sent)) {
		if got := line.Text("client"); got != "192.0.2.1" {
			t.Errorf("%s: the client is %q", sent[i], got)
		}
	}
}

// through connects like a proxy that sends header first.
func through(header string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_, err = io.WriteString(nc, header)
		}
		return nc, err
	}
}

const proxyHeader = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0f" + "\xc0\x00\x02\x01\x0a\x00\x00\x01\xd4\x31\x01\xbb" +
	"\x04\x00\x00"

// TestProxyProtocol: a trusted proxy sends the client address of each connection, at all doors. Trusted proxies
// that send none, and other clients that send one, are rejected. A silent connection delays no other.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	e := clientaddr.New(clientaddr.Config{Trusted: loopback, Protocol: clientaddr.V2})
	f := startBehind(t, e, call.Doc, call.Doc)
	silent, err := net.Dial("tcp", f.gateway.Addr)
	check.Must(t, err)
	defer silent.Close()
	conn := f.gateway.Conn(t, grpc.WithContextDialer(through(proxyHeader)))
	said := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "6.6.6.6") // it is not the proxy's
	for range 2 {
		if _, err = gatewaytest.NewClient(conn, call.Doc).Invoke(said, request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range protocols {
		client := p.client(f.gateway, t)
		client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
			return through(proxyHeader)(ctx, addr)
		}
		if resp, body := post(t, client, f.gateway, "caps", `{"tool_name":"echo"}`, "X-Forwarded-For",
			"6.6.6.6"); resp.StatusCode != 200 {
			t.Fatal(p.name, resp.Status, body)
		}
	}
	for i, line := range f.gateway.Log.Calls(t, 2+len(protocols)) {
		if got := line.Text("client"); got != "192.0.2.1" {
			t.Errorf("call %d comes from %q", i, got)
		}
	}
	assertClosed := func(what, sent string) {
		t.Helper()
		nc, err := through(sent)(t.Context(), f.gateway.Addr)
		check.Must(t, err)
		defer nc.Close()
		if answer, _ := io.ReadAll(nc); strings.Contains(string(answer), "200 OK") ||
			strings.Contains(string(answer), "404") {
			t.Errorf("%s: %q", what, answer)
		}
	}
	const plain = "GET /v1/capabilities HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	assertClosed("no header", plain)
	assertClosed("version 1", "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n"+plain)
	if e.Rejected() != 2 {
		t.Errorf("%d connections were refused", e.Rejected())
	}
	e.Replace(clientaddr.Config{Protocol: clientaddr.V2}) // as a reload does
	assertClosed("a header of a stranger", proxyHeader+plain)
	assertClosed("one of version 1", "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n"+plain)
	if _, err = f.client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
		t.Error("an untrusted client without a header:", err)
	}
}
