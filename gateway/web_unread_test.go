package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestRefusedBeforeTheEndOfTheBody: over HTTP/1.1, a request that is refused before its body was read to its end gets
// its response at once, while the client may still send. The connection then closes.
func TestRefusedBeforeTheEndOfTheBody(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc, func(o *gatewaytest.Options) { o.Connect.Stall = time.Hour })
	const upload = docpb.Capability_UploadInputArtifact_FullMethodName
	raw, err := proto.Marshal(&docpb.UploadInputArtifactChunk{Data: []byte("one"), Filename: "f"})
	check.Must(t, err)
	chunk := enveloped(0, string(raw))
	for name, c := range map[string]struct{ path, header, body, want string }{
		"another version": {invokePath, "Content-Type: application/proto\r\nConnect-Protocol-Version: 2", "x",
			"400"},
		"another type":        {invokePath, "Content-Type: text/plain", "x", "415"},
		"another charset":     {invokePath, "Content-Type: application/json; charset=latin1", "x", "415"},
		"unknown compression": {invokePath, "Content-Type: application/grpc-web\r\nGrpc-Encoding: br", "x", "12"},
		"malformed timeout": {streamPath, "Content-Type: application/connect+proto\r\nConnect-Timeout-Ms: x", "x",
			"200"},
		"malformed metadata": {streamPath, "Content-Type: application/grpc-web\r\nX-A-Bin: !", "x", "3"},
		"malformed JSON":     {streamPath, "Content-Type: application/connect+json", enveloped(0, "{"), "200"},
		"two messages": {invokePath, "Content-Type: application/grpc-web", enveloped(0, "") + enveloped(0, ""),
			"3"},
		"unknown fleet": {upload, "Content-Type: application/grpc-web\r\nX-Capability-Id: nope", chunk, "5"},
		"unknown fleet of Connect": {upload, "Content-Type: application/connect+proto\r\nX-Capability-Id: nope", chunk,
			"200"},
		"malformed second chunk": {upload, "Content-Type: application/connect+json\r\nX-Capability-Id: caps",
			enveloped(0, "{}") + enveloped(0, "{"), "200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, body := respondedEarly(t, f.gateway, c.path, c.header, c.body)
			got := resp.Header.Get("Grpc-Status")
			if got == "" {
				got = resp.Status[:3]
			}
			failed := got != "200" || strings.Contains(body, `"error"`)
			if got != c.want || !resp.Close || !failed {
				t.Errorf("%s, close: %t, %v, %q; want %s", resp.Status, resp.Close, resp.Header, body, c.want)
			}
		})
	}
}

// TestRefusedWithoutReadingTheBody: the other front doors respond to a request whose body they do not read after the
// time of a stalled client at the latest, also without authentication.
func TestRefusedWithoutReadingTheBody(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc, func(o *gatewaytest.Options) { o.Stall = stall })
	for path, want := range map[string]int{
		"/v1/capabilities/caps/invoke":        http.StatusUnsupportedMediaType,
		"/v1/capabilities/caps/artifacts?x=1": http.StatusBadRequest,
		"/v1/nope":                            http.StatusNotFound,
		"/v1/capabilities":                    http.StatusMethodNotAllowed,
		"/":                                   http.StatusNotFound,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			resp, body := respondedEarly(t, f.gateway, path, "Content-Type: text/plain", "x")
			if resp.StatusCode != want {
				t.Errorf("%s, %s; want %d", resp.Status, body, want)
			}
		})
	}
}

// respondedEarly returns the response to a request over HTTP/1.1 whose body has a chunk, but not its end.
func respondedEarly(t *testing.T, g *gatewaytest.Gateway, path, header, chunk string) (*http.Response, string) {
	t.Helper()
	conn := dialFrom(t, "127.0.0.1", g.Addr)
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"%x\r\n%s\r\n", path, header, len(chunk), chunk)
	check.Must(t, err)
	check.Must(t, conn.SetReadDeadline(time.Now().Add(check.Patience)))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check.Must(t, err)
	body, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp, string(body)
}
