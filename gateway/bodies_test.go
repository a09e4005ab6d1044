package gateway_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

const mib = 1 << 20

// bodyDoors are the doors whose requests are read whole.
var bodyDoors = []struct {
	name, path, contentType string
	pack                    func(json string) string
}{
	{"JSON", "/v1/capabilities/caps/tools/echo", "application/json", func(s string) string { return s }},
	{"Connect", invokePath, "application/json",
		func(s string) string { return `{"capabilityId":"caps","toolName":"echo","x":` + s + `}` }},
	{"gRPC-Web", invokePath, "application/grpc-web+json", func(s string) string {
		s = `{"capabilityId":"caps","toolName":"echo","x":` + s + `}`
		return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(s)))) + s
	}},
}

// sender is an HTTP/1.1 client that announces its body before it sends it.
type sender struct {
	net.Conn
	in *bufio.Reader
}

func declare(t *testing.T, f *front, path, contentType string, length int, header ...string) *sender {
	t.Helper()
	conn, err := net.Dial("tcp", f.gateway.Addr)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(check.Patience))
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n", path,
		contentType, length)
	for i := 0; i < len(header); i += 2 {
		head += header[i] + ": " + header[i+1] + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	return &sender{conn, bufio.NewReader(conn)}
}

// answer reads the whole response.
func (s *sender) answer(t *testing.T) string {
	t.Helper()
	resp, err := http.ReadResponse(s.in, nil)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	var all bytes.Buffer
	check.Must(t, resp.Write(&all))
	return all.String()
}

// credential returns the credential in ctx.
func credential(ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	return md.Get("authorization")[0]
}

// TestUnauthenticatedBodiesAreNotRead: a large body is not read before its request is authenticated. A client that
// sends it anyway receives the error.
func TestUnauthenticatedBodiesAreNotRead(t *testing.T) {
	t.Parallel()
	f := keyed(t, newKeyring(), call.Doc, call.Doc)
	for i, door := range bodyDoors {
		waits := declare(t, f, door.path, door.contentType, 10*mib)
		if got := waits.answer(t); !strings.Contains(got, "API key or a token") {
			t.Errorf("%s, a client that sends no body: %.500s", door.name, got)
		}
		if line := f.gateway.Log.Calls(t, 2*i+1)[2*i]; line["reason"] != "CREDENTIAL_MISSING" {
			t.Errorf("%s: the log says %v", door.name, line)
		}
		hasty := declare(t, f, door.path, door.contentType, 10*mib)
		if _, err := io.Copy(hasty, strings.NewReader(strings.Repeat("x", 10*mib))); err != nil {
			t.Errorf("%s, a client that sends its whole body: %v", door.name, err)
		}
		if got := hasty.answer(t); !strings.Contains(got, "API key or a token") {
			t.Errorf("%s, a client that sends its whole body: %.500s", door.name, got)
		}
	}
}

// A client whose credential is not in the cache is authenticated first, and then may send the same.
func TestBodiesOfUncachedCredentials(t *testing.T) {
	t.Parallel()
	r := newKeyring()
	r.uncached = true
	f := keyed(t, r, call.Doc, call.Doc)
	for _, p := range protocols {
		resp, text := post(t, p.client(f.gateway, t), f.gateway, "caps",
			`{"tool_name":"echo","args":{"a":"`+strings.Repeat("x", mib)+`"}}`,
			"Authorization", "Bearer "+r.credentials["acme"])
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %.200s", p.name, resp.Status, text)
		}
	}
}

// TestBodiesOfATenant: request bodies of one tenant use at most its share; the rest is left to other tenants.
func TestBodiesOfATenant(t *testing.T) {
	t.Parallel()
	f, acme, globex := boundedFor(t, gatewaytest.Options{MaxBodies: mib}, tenant.Limits{}, call.Doc)
	for _, door := range bodyDoors {
		var held []*sender
		for range 2 {
			s := declare(t, f, door.path, door.contentType, 400<<10, "Authorization", credential(acme), "Expect",
				"100-continue")
			if line, err := s.in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
				t.Fatal(door.name, line, err)
			}
			held = append(held, s)
		}
		third := declare(t, f, door.path, door.contentType, 400<<10, "Authorization", credential(acme))
		if got := third.answer(t); !strings.Contains(got, "more than its share") {
			t.Errorf("%s: a tenant over its share: %.500s", door.name, got)
		}
		text := door.pack(`{"a":"` + strings.Repeat("x", 100<<10) + `"}`)
		other := declare(t, f, door.path, door.contentType, len(text), "Authorization", credential(globex))
		if _, err := io.WriteString(other, text); err != nil {
			t.Fatal(err)
		}
		if got := other.answer(t); !strings.HasPrefix(got, "HTTP/1.1 200") ||
			strings.Contains(strings.ToLower(got), "grpc-status: 8") {
			t.Errorf("%s: another tenant: %.500s", door.name, got)
		}
		for _, s := range held {
			_ = s.Close()
		}
		check.Until(t, door.name+": all to be gone", func() (bool, string) {
			held := f.gateway.Bodies()
			return held == 0, fmt.Sprint(held, " is held")
		})
	}
}

// TestBodiesThatDoNotCome: a client without a credential that starts requests and sends no bodies leaves room
// for clients at other addresses, and for tenants.
func TestBodiesThatDoNotCome(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	options := gatewaytest.Options{MaxBodies: mib,
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}}}
	open := &front{gateway: gatewaytest.Start(t, options)}
	closed, acme, _ := boundedFor(t, gatewaytest.Options{MaxBodies: mib}, tenant.Limits{}, call.Doc)
	for _, test := range []struct {
		f      *front
		header string // of the other clients
		full   string // the final response of the first client
	}{
		{open, "", "503"},
		{closed, "Authorization: " + credential(acme) + "\r\n", "401"},
	} {
		from := func(addr, head string) *sender {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
			conn, err := d.DialContext(t.Context(), "tcp4", test.f.gateway.Addr)
			if err != nil {
				t.Fatalf("no client at %s: %v", addr, err)
			}
			check.Cleanup(t, func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(check.Patience))
			head = "POST /v1/capabilities/caps/tools/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
				"application/json\r\n" + head
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			return &sender{conn, bufio.NewReader(conn)}
		}
		line := "100 Continue"
		for n := 0; strings.Contains(line, "100 Continue"); n++ {
			if n == 64 {
				t.Fatal("one address holds all the memory")
			}
			var err error
			s := from("127.0.0.1", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
			if line, err = s.in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(line, test.full) {
			t.Errorf("the first address got %s", line)
		}
		for _, addr := range []string{"127.0.0.2", "127.0.0.3"} {
			got := from(addr, test.header+"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n").answer(t)
			if !strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Errorf("%s, with %q: %.300s", addr, test.header, got)
			}
		}
	}
}

// TestCompressedBodies: a compressed body counts with its decompressed size.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	f, acme, _ := boundedFor(t, gatewaytest.Options{MaxBodies: mib}, tenant.Limits{}, call.Doc)
	for _, door := range bodyDoors[:2] {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = io.WriteString(z, door.pack(`{"a":"`+strings.Repeat("x", 2*mib)+`"}`))
		_ = z.Close()
		s := declare(t, f, door.path, door.contentType, packed.Len(), "Content-Encoding", "gzip", "Authorization",
			credential(acme))
		if _, err := s.Write(packed.Bytes()); err != nil {
			t.Fatal(err)
		}
		if got := s.answer(t); !strings.Contains(got, "more than its share") {
			t.Errorf("%s: %.500s", door.name, got)
		}
	}
}
