package grpcservice_test

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// losses are ways in which a backend loses a call that it may have run.
var losses = map[string]gatewaytest.Script{
	"the connection ends": func(*rawhttp2.Conn, uint32) bool { return false },
	"the connection ends behind the headers": func(c *rawhttp2.Conn, stream uint32) bool {
		_ = c.Write(rawhttp2.Headers(stream, false, c.Block(":status", "200", "content-type", "application/grpc")))
		return false
	},
	"a reset": func(c *rawhttp2.Conn, stream uint32) bool { return c.Write(rawhttp2.Reset(stream, 2)) == nil },
	"a reset as flood protection": func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Reset(stream, 0xb)) == nil
	},
	"a reset that cancels": func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Reset(stream, rawhttp2.Cancel)) == nil
	},
	"no status":         ends(":status", "200", "content-type", "application/grpc"),
	"no message":        ends(":status", "200", "content-type", "application/grpc", "grpc-status", "0"),
	"another encoding":  answers("application/grpc", []byte("\x01\x00\x00\x00\x01x"), "grpc-status", "0"),
	"no protobuf":       answers("application/grpc", rawhttp2.Message([]byte("\xff\xff")), "grpc-status", "0"),
	"half of a message": answers("application/grpc", []byte("\x00\x00\x00\x00\x09x"), "grpc-status", "0"),
}

// ends returns an answer without a body.
func ends(fields ...string) gatewaytest.Script {
	return func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Headers(stream, true, c.Block(fields...))) == nil
	}
}

// answers returns an answer with a body and trailers.
func answers(kind string, body []byte, trailer ...string) gatewaytest.Script {
	return func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Headers(stream, false, c.Block(":status", "200", "content-type", kind)),
			rawhttp2.Data(stream, false, body), rawhttp2.Headers(stream, true, c.Block(trailer...))) == nil
	}
}

// TestClientsDoNotRepeatWhatMayHaveRun: the retry policy of grpc-go repeats no call whose backend lost it.
func TestClientsDoNotRepeatWhatMayHaveRun(t *testing.T) {
	t.Parallel()
	for name, script := range losses {
		for _, streams := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/StreamInvoke", false: "/Invoke"}[streams], func(t *testing.T) {
				t.Parallel()
				trailer, calls, err := failing(t, script, streams)
				info := clienttest.ErrorInfo(err)
				if calls != 1 || info.GetReason() == "" || info.GetMetadata()["not_started"] != "" {
					t.Errorf("%d calls, %v, %v", calls, err, info)
				}
				if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "-1" {
					t.Errorf("pushback %q", got)
				}
			})
		}
	}
}

// TestPushbackOfAService: a service's retry pushback reaches the client.
func TestPushbackOfAService(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		trailer, calls, err := failing(t, ends(":status", "200", "content-type", "application/grpc", "grpc-status",
			"14", "grpc-message", "busy", "grpc-retry-pushback-ms", "-1"), streams)
		if got := trailer.Get("grpc-retry-pushback-ms"); status.Code(err) != codes.Unavailable || calls != 1 ||
			len(got) != 1 {
			t.Errorf("%d calls, %v, pushback %q", calls, err, got)
		}
	}
}

// TestUnknownToolDidNotStart: a call of a tool that is no method of the service says that it did not start.
func TestUnknownToolDidNotStart(t *testing.T) {
	t.Parallel()
	w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
		f.Content, of.Unprobed = definitions(t), true
	}, gatewaytest.Scripted(t, func(*rawhttp2.Conn, uint32) bool { return false }))
	_, err := w.Invoke(within(t), request("Nothing", `{}`))
	if info := clienttest.ErrorInfo(err); status.Code(err) != codes.NotFound || info.GetMetadata()["not_started"] !=
		"true" {
		t.Errorf("%v, %v", err, info)
	}
}

// failing makes one call by a client of grpc-go with a retry policy. calls counts the requests that the backend got.
func failing(t *testing.T, script gatewaytest.Script, streams bool) (trailer metadata.MD, calls int32, err error) {
	t.Helper()
	var came atomic.Int32
	w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
		f.Content, of.Unprobed = definitions(t), true
	}, gatewaytest.Scripted(t, func(c *rawhttp2.Conn, stream uint32) bool {
		came.Add(1)
		return script(c, stream)
	}))
	conn, err := clienttest.NewConn("passthrough:///"+w.gateway.Addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), clienttest.Retrying())
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	client := docpb.NewCapabilityClient(conn)
	if !streams {
		_, err = client.Invoke(within(t), request("Echo", `{}`), grpc.Trailer(&trailer))
		return trailer, came.Load(), err
	}
	stream, err := client.StreamInvoke(within(t), request("Echo", `{}`))
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		t.Fatal("the call succeeded")
	}
	return stream.Trailer(), came.Load(), err
}

// TestAnswersThatAreNotGRPC: the pages of a load balancer have the codes of their HTTP statuses, and nothing of the
// page. They count as failures: a call that is declared idempotent is made at another backend.
func TestAnswersThatAreNotGRPC(t *testing.T) {
	t.Parallel()
	page := func(code string) gatewaytest.Script {
		return func(c *rawhttp2.Conn, stream uint32) bool {
			return c.Write(rawhttp2.Headers(stream, false, c.Block(":status", code, "content-type", "text/html")),
				rawhttp2.Data(stream, true, []byte("<h1>hidden</h1>"))) == nil
		}
	}
	for code, want := range map[string]codes.Code{"200": codes.Unknown, "400": codes.Internal,
		"401": codes.Unauthenticated, "403": codes.PermissionDenied, "404": codes.Unimplemented, "418": codes.Unknown,
		"429": codes.Unavailable, "502": codes.Unavailable, "503": codes.Unavailable, "504": codes.Unavailable} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			trailer, calls, err := failing(t, page(code), false)
			if status.Code(err) != want || clienttest.Reason(err) != "UPSTREAM_NOT_GRPC" || calls != 1 ||
				len(trailer.Get("grpc-retry-pushback-ms")) != 1 || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%d calls, %v, %v, %v", calls, err, clienttest.ErrorInfo(err), trailer)
			}
		})
	}
	t.Run("idempotent", func(t *testing.T) {
		t.Parallel()
		good := grpctest.Start(t, grpctest.Options{})
		w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
			f.Content, of.Unprobed, of.Idempotent = definitions(t), true, []string{"*"}
		}, gatewaytest.Scripted(t, page("502")), good.Addr)
		for range 20 {
			w.result(t, "Echo", `{}`)
		}
	})
}

// TestMostBackendsDieAtOnce: a call that no backend has started reaches the remaining one, without a retry budget.
func TestMostBackendsDieAtOnce(t *testing.T) {
	t.Parallel()
	var servers []*grpctest.Server
	var addrs []string
	for range 5 {
		s := grpctest.Start(t, grpctest.Options{})
		servers, addrs = append(servers, s), append(addrs, s.Addr)
	}
	w := start(t, func(_ *upstream.Fleet, f *gatewaytest.Fleet) {
		f.Retries, f.Ejection = router.Retries{Share: -1, Floor: -1}, router.Ejection{ConnectFailures: -1}
	}, addrs...)
	for range 20 {
		w.result(t, "Echo", `{}`)
	}
	for _, s := range servers[1:] {
		s.Stop()
	}
	for range 40 {
		if _, err := w.Invoke(within(t), request("Echo", `{}`)); err != nil &&
			clienttest.Reason(err) != "UPSTREAM_LOST" {
			t.Errorf("%v, %v", err, clienttest.ErrorInfo(err))
		}
	}
}
