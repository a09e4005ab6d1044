package gateway_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestConnectRequestsOfUnknownLength: a request of Connect has the same response with a length and without: status,
// headers, trailers, errors, compression.
func TestConnectRequestsOfUnknownLength(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	long := request(gatewaytest.Echo, `{"text":"`+strings.Repeat("long ", 1000)+`"}`)
	encoded, err := proto.Marshal(long)
	check.Must(t, err)
	small, err := proto.Marshal(request(gatewaytest.Echo, `{"a":1}`))
	check.Must(t, err)
	invoke := func(tool string) string {
		return fmt.Sprintf(`{"capabilityId":"caps","toolName":%q,"argsJson":"e30="}`, tool)
	}
	const asJSON, asProto = "application/json", "application/proto"
	for name, c := range map[string]struct {
		path, contentType, body string
		header                  []string
	}{
		"a result":             {invokePath, asProto, string(small), nil},
		"a result as JSON":     {invokePath, asJSON, invoke(gatewaytest.Echo), nil},
		"with a charset":       {invokePath, "application/json; charset=utf-8", invoke(gatewaytest.Echo), nil},
		"a long result":        {invokePath, asProto, string(encoded), nil},
		"compressed":           {invokePath, asProto, string(encoded), []string{"Accept-Encoding", "br, gzip"}},
		"short, not":           {invokePath, asProto, string(small), []string{"Accept-Encoding", "gzip"}},
		"an empty result":      {invokePath, asJSON, invoke(gatewaytest.Empty), nil},
		"a tool's error":       {invokePath, asJSON, invoke(gatewaytest.Fail), nil},
		"a backend's error":    {invokePath, asJSON, invoke(gatewaytest.Break), nil},
		"an unknown fleet":     {invokePath, asJSON, `{"capabilityId":"nope","toolName":"echo"}`, nil},
		"no message":           {invokePath, asProto, "\xff\xff", nil},
		"no JSON":              {invokePath, asJSON, "{", nil},
		"nothing":              {invokePath, asProto, "", nil},
		"no base64":            {invokePath, asJSON, invoke(gatewaytest.Echo), []string{"X-A-Bin", "!"}},
		"binary metadata":      {invokePath, asJSON, invoke(gatewaytest.Echo), []string{"X-A-Bin", "AAH+/w,AAE="}},
		"a service of its own": {checkPath, asJSON, "{}", nil},
		"too late":             {checkPath, asJSON, "{}", []string{"Connect-Timeout-Ms", "0"}},
		"another version":      {checkPath, asJSON, "{}", []string{"Connect-Protocol-Version", "2"}},
	} {
		for _, p := range protocols {
			client := p.client(f.gateway, t)
			send := func(body io.Reader) string {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.gateway.URL(c.path), body)
				check.Must(t, err)
				req.Header = http.Header{"Content-Type": {c.contentType}, "X-Request-Id": {"r"},
					"Accept-Encoding": {"identity"}}
				for i := 0; i < len(c.header); i += 2 {
					req.Header[c.header[i]] = []string{c.header[i+1]}
				}
				resp, err := client.Do(req)
				check.Must(t, err)
				defer resp.Body.Close()
				return written(t, resp)
			}
			known, unknown := send(strings.NewReader(c.body)), send(io.MultiReader(strings.NewReader(c.body)))
			if known != unknown {
				t.Errorf("%s, %s: with a length\n%s\nwithout\n%s", name, p.name, known, unknown)
			}
			if want := "Trailer-Served-By: [b1]"; name == "a result" && !strings.Contains(known, want) ||
				name == "compressed" && !strings.Contains(known, "Content-Encoding: [gzip]") {
				t.Errorf("%s, %s: %s", name, p.name, known)
			}
		}
	}
}

// TestConnectOfStalledBodies: a body that stops and one that is cut off have the same responses with a length and
// without.
func TestConnectOfStalledBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends  bool
		stall time.Duration
		want  string
	}{"stalled": {false, stall, "504 "}, "cut off": {true, check.Patience, "400 "}} {
		f := startFront(t, call.Doc, call.Doc, func(o *gatewaytest.Options) { o.Connect.Stall = c.stall })
		for _, length := range []string{"Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n64\r\n{"} {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.gateway.Addr)
			check.Must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = io.WriteString(conn, "POST "+invokePath+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+
				"Content-Type: application/json\r\n"+length)
			check.Must(t, err)
			if c.ends {
				check.Must(t, conn.(*net.TCPConn).CloseWrite()) //nolint:forcetypeassert // it is one
			}
			check.Must(t, conn.SetReadDeadline(time.Now().Add(check.Patience)))
			got, err := io.ReadAll(conn)
			check.Must(t, err)
			if !strings.HasPrefix(string(got), "HTTP/1.1 "+c.want) {
				t.Errorf("%s, %.14s: %s", name, length, got)
			}
		}
	}
}

// TestConnectOfCompressedResponses: the response of a backend that always compresses reaches the client.
func TestConnectOfCompressedResponses(t *testing.T) {
	t.Parallel()
	always := grpc.RPCCompressor(grpc.NewGZIPCompressor()) //nolint:staticcheck // what such backends do
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc, always)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
		Backends: []string{backend.Addr}}}})
	status, text := sendWeb(t, http.DefaultClient, g.URL(invokePath), "application/json",
		`{"capabilityId":"caps","toolName":"echo","argsJson":"e30="}`)
	if status != http.StatusOK || !strings.Contains(text, `"resultJson":"e30="`) {
		t.Errorf("%d %s", status, text)
	}
}

// written returns a response without the parts that vary.
func written(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		check.Must(t, err)
		body, err = io.ReadAll(unpacked)
		check.Must(t, err)
	}
	var text strings.Builder
	fmt.Fprintln(&text, resp.StatusCode)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if name != "Date" && name != "Content-Length" {
			fmt.Fprintf(&text, "%s: %s\n", name, resp.Header[name])
		}
	}
	if resp.Header.Get("Content-Type") == "application/json" { // protojson varies its spaces
		body = bytes.ReplaceAll(body, []byte(" "), nil)
	}
	text.Write(body)
	return text.String()
}
