package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// authorities is a gateway with a unix socket and a public port.
type authorities struct {
	gateway    *gatewaytest.Gateway
	capability *gatewaytest.Capability
	socket     net.Listener
}

func startAuthorities(t *testing.T) *authorities {
	t.Helper()
	socket := socket(t, "unix")
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Listeners = []gateway.Listener{{Of: &tenant.Listener{Scopes: tenant.Invoke | tenant.Read}, Socket: socket}}
	})
	return &authorities{f.gateway, f.capability, socket}
}

// dial connects to the socket or the public port.
func (a *authorities) dial(t *testing.T, toSocket bool) net.Conn {
	t.Helper()
	network, address := "tcp", a.gateway.Addr
	if toSocket {
		network, address = "unix", a.socket.Addr().String()
	}
	conn, err := net.Dial(network, address)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return conn
}

// last returns the authority of the backend's last call.
func (a *authorities) last(t *testing.T) string {
	t.Helper()
	seen := a.capability.Seen()
	if len(seen) == 0 {
		return "no call"
	}
	return strings.Join(seen[len(seen)-1].Metadata.Get(":authority"), ",")
}

// over2 makes a request over HTTP/2 with the given fields in place of an authority, and returns the response
// header.
func (a *authorities) over2(t *testing.T, toSocket bool, path, typ string, body []byte,
	fields ...string) *rawhttp2.Response {
	t.Helper()
	c := rawhttp2.New(a.dial(t, toSocket))
	check.Must(t, c.Greet())
	// In the order of grpc-go: pseudo-header fields first.
	var pseudo, regular []string
	for i := 0; i < len(fields); i += 2 {
		if strings.HasPrefix(fields[i], ":") {
			pseudo = append(pseudo, fields[i:i+2]...)
		} else {
			regular = append(regular, fields[i:i+2]...)
		}
	}
	head := append([]string{":method", "POST", ":scheme", "http", ":path", path}, pseudo...)
	head = append(append(head, "content-type", typ, "x-capability-id", "caps"), regular...)
	if typ == "application/grpc" {
		head = append(head, "te", "trailers")
	}
	check.Must(t, c.Write(rawhttp2.Headers(1, false, c.Block(head...)), rawhttp2.Data(1, true, body)))
	resp, err := c.WaitResponse(1)
	check.Must(t, err)
	return resp
}

// TestAuthoritiesOfSockets: over every protocol, a client of a unix socket may send any form of the socket's
// path as the authority, or none. Backends get localhost, which also stands in for an absent authority at a
// port. At a port, an authority that is no host is rejected.
func TestAuthoritiesOfSockets(t *testing.T) {
	t.Parallel()
	a := startAuthorities(t)
	message, err := proto.Marshal(&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo})
	check.Must(t, err)
	framed := append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
	const json = `{"capabilityId":"caps","toolName":"echo"}`
	for _, c := range []struct {
		fields []string
		want   string // at the backend
		port   bool   // a port accepts it too
	}{
		{nil, "localhost", true},
		{[]string{":authority", ""}, "localhost", true},
		{[]string{"host", ""}, "localhost", true},
		{[]string{":authority", "localhost"}, "localhost", true},
		{[]string{":authority", "LocalHost:80"}, "LocalHost:80", true},
		{[]string{":authority", "[::1]:50051"}, "[::1]:50051", true},
		{[]string{"host", "127.0.0.1:80"}, "127.0.0.1:80", true},
		{[]string{":authority", "/run/capgate/x.sock"}, "localhost", false},
		{[]string{":authority", "unix:/run/capgate/x.sock"}, "localhost", false},
		{[]string{":authority", "unix:///run/capgate/x.sock"}, "localhost", false},
		{[]string{":authority", "./x.sock"}, "localhost", false},
		{[]string{":authority", "user@x"}, "localhost", false},
		{[]string{":authority", "/run/x.sock", "host", "/run/x.sock"}, "localhost", false},
		{[]string{":authority", "/run/x.sock", "host", "localhost"}, "localhost", false},
		{[]string{"host", "/run/x.sock"}, "localhost", false},
		{[]string{":authority", "run%2Fcapgate%2Fx.sock"}, "localhost", true},
		{[]string{":authority", "%2Frun%2Fx.sock"}, "localhost", true},
		{[]string{":authority", "unix:x.sock"}, "localhost", true},
		{[]string{":authority", "unix-abstract:x"}, "localhost", true},
	} {
		for path, request := range map[string]struct {
			typ  string
			body []byte
		}{
			"/selu.capability.Capability/Invoke":  {"application/grpc", framed},
			"/selu.capability.Capability/Invoke ": {"application/json", []byte(json)},
			"/v1/capabilities/caps/tools/echo":    {"application/json", []byte(`{}`)},
		} {
			path = strings.TrimSpace(path)
			before := len(a.capability.Seen())
			got := a.over2(t, true, path, request.typ, request.body, c.fields...)
			if ok := got.Status() == "0" || request.typ == "application/json" && got.Header[":status"] == "200"; !ok ||
				len(a.capability.Seen()) != before+1 {
				t.Errorf("%q, %s, %s: %v", c.fields, path, request.typ, got)
			} else if got := a.last(t); request.typ == "application/grpc" && got != c.want {
				t.Errorf("%q: the backend gets %q", c.fields, got)
			}
		}
		before := len(a.capability.Seen())
		got := a.over2(t, false, "/selu.capability.Capability/Invoke", "application/grpc", framed, c.fields...)
		if ok := got.Status() == "0"; ok != c.port || !c.port && len(a.capability.Seen()) != before {
			t.Errorf("%q at a port: %v", c.fields, got)
		} else if got := a.last(t); c.port && c.want == "localhost" && len(c.fields) == 0 && got != c.want {
			t.Errorf("%q at a port: the backend gets %q", c.fields, got)
		}
	}
	if got := a.over2(t, true, "/selu.capability.Capability/Invoke", "application/grpc", framed, ":authority",
		"a.example", "host", "b.example"); !got.Reset {
		t.Errorf("two hosts: %v", got)
	}
}

// TestHostsOfSockets: the same over HTTP/1.1. Requests from pages of other sites are rejected at ports.
func TestHostsOfSockets(t *testing.T) {
	t.Parallel()
	a := startAuthorities(t)
	for host, port := range map[string]int{"": 200, "localhost": 200, "127.0.0.1:8080": 200, "unix:": 421,
		"%2Frun%2Fx.sock": 421, "run%2Fx.sock": 421, "evil.example": 421} {
		for path, body := range map[string]string{"/v1/capabilities/caps/tools/echo": `{}`,
			"/mcp":                               `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			"/selu.capability.Capability/Invoke": `{"capabilityId":"caps","toolName":"echo"}`} {
			for _, toSocket := range []bool{true, false} {
				conn := a.dial(t, toSocket)
				_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
					"Content-Length: %d\r\n\r\n%s", path, host, len(body), body)
				check.Must(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				check.Must(t, err)
				var text bytes.Buffer
				_, _ = text.ReadFrom(resp.Body)
				_ = resp.Body.Close()
				want := port
				if toSocket && host != "evil.example" {
					want = http.StatusOK
				}
				if resp.StatusCode != want {
					t.Errorf("%q, %s, at the socket %t: %s %s", host, path, toSocket, resp.Status, text.String())
				}
			}
		}
	}
}
