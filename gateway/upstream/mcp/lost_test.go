package mcp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
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
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// losses are answers to tools/call by which the server may have run the tool, and rejections those by which it did not.
var (
	losses = map[string]func(http.ResponseWriter, *http.Request, string){
		"the connection ends": func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) },
		"the connection ends in the response": func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"the events end":         says(http.StatusOK, "text/event-stream", ": nothing\n\n"),
		"no body":                says(http.StatusOK, "application/json", ""),
		"502 of a load balancer": says(http.StatusBadGateway, "text/html", "<h1>502</h1>"),
		"503":                    says(http.StatusServiceUnavailable, "text/plain", "try again later"),
		"500":                    says(http.StatusInternalServerError, "text/plain", ""),
		"a page":                 says(http.StatusOK, "text/html", "<h1>Welcome</h1>"),
		"an answer to another request": says(http.StatusOK, "application/json",
			`{"jsonrpc":"2.0","id":77,"result":{}}`),
		"a result that is not of a tool": says(http.StatusOK, "application/json",
			`{"jsonrpc":"2.0","id":ID,"result":[]}`),
		"neither a result nor an error": says(http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":ID}`),
		"a message that is larger than 1": endless("application/json", `{"jsonrpc":"2.0","id":1,"result":{"x":"`,
			"xxxx"),
	}
	rejections = map[string]func(http.ResponseWriter, *http.Request, string){
		"401": says(http.StatusUnauthorized, "text/plain", "who?"),
		"403": says(http.StatusForbidden, "text/plain", "no"),
		"404": says(http.StatusNotFound, "text/plain", "nothing"),
		"429": says(http.StatusTooManyRequests, "text/plain", "later"),
		"307": says(http.StatusTemporaryRedirect, "text/plain", ""),
		"413": says(http.StatusRequestEntityTooLarge, "text/plain", ""),
	}
)

// TestClientsDoNotRepeatWhatMayHaveRun: the retry policy of grpc-go repeats no call of which a server lost the answer.
func TestClientsDoNotRepeatWhatMayHaveRun(t *testing.T) {
	t.Parallel()
	for name, answer := range losses {
		for method, call := range map[string]func(*retrying, context.Context) (metadata.MD, error){
			"Invoke": (*retrying).invoke, "StreamInvoke": (*retrying).stream,
		} {
			t.Run(name+"/"+method, func(t *testing.T) {
				t.Parallel()
				client, calls := failing(t, answer)
				trailer, err := call(client, within(t))
				info := clienttest.ErrorInfo(err)
				if n := calls.Load(); n != 1 || info.GetReason() == "" || info.GetMetadata()["not_started"] != "" {
					t.Errorf("%d calls, %v, %v", n, err, info)
				}
				if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "-1" {
					t.Errorf("pushback %q", got)
				}
			})
		}
	}
}

// TestRejectedCallsDidNotStart: what the server rejects before it begins says so.
func TestRejectedCallsDidNotStart(t *testing.T) {
	t.Parallel()
	for name, answer := range rejections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := failing(t, answer)
			trailer, err := client.invoke(within(t))
			if info := clienttest.ErrorInfo(err); info.GetReason() != "UPSTREAM_REJECTED" ||
				info.GetMetadata()["not_started"] != "true" || len(trailer.Get("grpc-retry-pushback-ms")) > 0 {
				t.Errorf("%v, %v, %v", err, info, trailer)
			}
		})
	}
}

// TestLostCallsOfIdempotentTools: they are made once more, at another server.
func TestLostCallsOfIdempotentTools(t *testing.T) {
	t.Parallel()
	var urls []string
	var calls atomic.Int32
	for range 2 {
		r := newRemote(t, false)
		behind := *r.handler.Load()
		r.hostile("tools/call", "", func(w http.ResponseWriter, q *http.Request, _ string) {
			if calls.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
			behind.ServeHTTP(w, q)
		})
		urls = append(urls, r.URL)
	}
	w := start(t, func(_ *upstream.Fleet, of *gatewaytest.Fleet) { of.Idempotent = []string{"*"} }, urls...)
	w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// retrying is a client of grpc-go with a retry policy.
type retrying struct{ docpb.CapabilityClient }

// failing runs a gateway with a server that answers each call of a tool in one way, and counts the calls.
func failing(t *testing.T, answer func(http.ResponseWriter, *http.Request, string)) (*retrying, *atomic.Int32) {
	t.Helper()
	r, calls := newRemote(t, false), new(atomic.Int32)
	r.hostile("tools/call", "", func(w http.ResponseWriter, q *http.Request, id string) {
		calls.Add(1)
		answer(w, q, id)
	})
	w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) { settings(f).MaxMessage = maxMessage }, r.URL)
	conn, err := clienttest.NewConn("passthrough:///"+w.gateway.Addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), clienttest.Retrying())
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return &retrying{docpb.NewCapabilityClient(conn)}, calls
}

func (c *retrying) invoke(ctx context.Context) (trailer metadata.MD, err error) {
	_, err = c.Invoke(ctx, request("echo", `{"text":"x"}`), grpc.Trailer(&trailer))
	return trailer, err
}

func (c *retrying) stream(ctx context.Context) (metadata.MD, error) {
	stream, err := c.StreamInvoke(ctx, request("echo", `{"text":"x"}`))
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil, status.Error(codes.OK, "")
	}
	return stream.Trailer(), err
}
