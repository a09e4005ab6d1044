package gateway_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// page returns a response with an HTML page, as load balancers send.
func page(code string) gatewaytest.Script {
	return func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Headers(stream, false, c.Block(":status", code, "content-type", "text/html")),
			rawhttp2.Data(stream, true, []byte("<h1>hidden</h1>"))) == nil
	}
}

// closing returns a response of only headers.
func closing(fields ...string) gatewaytest.Script {
	return func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Headers(stream, true, c.Block(fields...))) == nil
	}
}

// notGRPC are responses that are not gRPC, with the code that callers get.
var notGRPC = map[string]struct {
	answer gatewaytest.Script
	code   codes.Code
}{
	"400":             {page("400"), codes.Internal},
	"401":             {page("401"), codes.Unauthenticated},
	"403":             {page("403"), codes.PermissionDenied},
	"404":             {page("404"), codes.Unimplemented},
	"418":             {page("418"), codes.Unknown},
	"429":             {page("429"), codes.Unavailable},
	"500":             {page("500"), codes.Unknown},
	"502":             {page("502"), codes.Unavailable},
	"503":             {page("503"), codes.Unavailable},
	"504":             {page("504"), codes.Unavailable},
	"200 and a page":  {page("200"), codes.Unknown},
	"503 and no page": {closing(":status", "503"), codes.Unavailable},
	"no status":       {closing(":status", "200", "content-type", "application/grpc"), codes.Unknown},
	"no status behind a message": {func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(append(begun(c, stream), rawhttp2.Headers(stream, true, c.Block("x-end", "1")))...) == nil
	}, codes.Unknown},
	"no trailers": {func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(append(begun(c, stream), rawhttp2.Data(stream, true, nil))...) == nil
	}, codes.Unknown},
}

// TestAnswersThatAreNotGRPC: callers get the code of the HTTP status and a reason, in every protocol, and
// nothing of the page. The access log has the same code.
func TestAnswersThatAreNotGRPC(t *testing.T) {
	t.Parallel()
	for name, test := range notGRPC {
		for _, caller := range eachCaller {
			t.Run(name+"/"+caller.name, func(t *testing.T) {
				t.Parallel()
				g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
					Dialect: call.Doc, Unprobed: true, Backends: []string{gatewaytest.Scripted(t, test.answer)}}}})
				got := caller.failed(t, g)
				b := breakdown{reason: "UPSTREAM_NOT_GRPC"}
				b.check(t, got, caller.grpc)
				if strings.Contains(got.text, "hidden") {
					t.Errorf("got %q", got.text)
				}
			})
		}
		t.Run(name+"/code", func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
				Dialect: call.Doc, Unprobed: true, Backends: []string{gatewaytest.Scripted(t, test.answer)}}}})
			_, err := gatewaytest.NewClient(g.Conn(t), call.Doc).Invoke(to(t.Context(), "caps"),
				request(gatewaytest.Echo, `{}`), grpc.WaitForReady(true))
			if status.Code(err) != test.code {
				t.Errorf("%v, want %v", err, test.code)
			}
			for _, line := range g.Log.Calls(t, 1) {
				if line.Text("code") != codeNames[test.code] || line.Text("failure") != "UPSTREAM_NOT_GRPC" {
					t.Errorf("got %v", line)
				}
			}
		})
	}
}

var codeNames = map[codes.Code]string{codes.Internal: "INTERNAL", codes.Unauthenticated: "UNAUTHENTICATED",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.Unimplemented: "UNIMPLEMENTED", codes.Unknown: "UNKNOWN",
	codes.Unavailable: "UNAVAILABLE"}

// TestPagesOfLoadBalancersAreFailures: an idempotent call is retried at another backend, and the backend behind
// the load balancer that serves pages is ejected.
func TestPagesOfLoadBalancersAreFailures(t *testing.T) {
	t.Parallel()
	var pages atomic.Int32
	broken := gatewaytest.Scripted(t, func(c *rawhttp2.Conn, stream uint32) bool {
		pages.Add(1)
		return page("502")(c, stream)
	})
	good := gatewaytest.NewCapability("good").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps", Dialect: call.Doc,
		Unprobed: true, Backends: []string{broken, good.Addr}, Idempotent: []string{"*"}}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	for range 60 {
		_, err := client.Invoke(to(t.Context(), "caps"), request(gatewaytest.Echo, `{}`))
		check.Must(t, err)
	}
	if n := pages.Load(); n == 0 || n > 10 {
		t.Errorf("%d of 60 calls came to the load balancer", n)
	}
}
