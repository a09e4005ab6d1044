package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestCalls: tools of servers of both eras are called as those of a capability.
func TestCalls(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, old)
			w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) {
				f.Headers = map[string]string{"authorization": "Bearer ours"}
			}, r.URL)
			w.wantResult(t, request("echo", `{"text":"hello <world>"}`), `"hello <world>"`)
			w.wantResult(t, request("structured", `{"id":12345678901234567890,"e":1.10}`),
				`{"id":12345678901234567890,"e":1.10}`)
			w.wantResult(t, request("image", ``),
				`{"content":[{"type":"text","text":"see"},{"type":"image","mimeType":"image/png","data":"aW1n"}]}`)
			got, err := w.Invoke(within(t), request("fail", `{"text":""}`))
			if err != nil || got.GetError() != "no such city" {
				t.Errorf("a tool's error: %+v, %v", got, err)
			}
			for args, code := range map[string]codes.Code{`[1]`: codes.InvalidArgument,
				`{"a":1,"a":2}`: codes.InvalidArgument, `{`: codes.InvalidArgument} {
				if _, err := w.Invoke(within(t), request("echo", args)); status.Code(err) != code {
					t.Errorf("%s: %v", args, err)
				}
			}
			if _, err := w.Invoke(within(t), request("unknown", `{}`)); status.Code(err) != codes.InvalidArgument {
				t.Errorf("an unknown tool: %v", err)
			}
			ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer theirs",
				"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-capgate-tenant", "other")
			if _, err := w.Invoke(ctx, request("echo", `{"text":"x"}`)); err != nil {
				t.Error(err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if got := r.headers.Values("Authorization"); len(got) != 1 || got[0] != "Bearer ours" {
				t.Errorf("the server saw the credential %q", got)
			}
			if !strings.Contains(r.headers.Get("Traceparent"), "0af7651916cd43dd8448eb211c80319c") {
				t.Errorf("traceparent %q", r.headers.Get("Traceparent"))
			}
			if n := r.inits.Load(); old != (n > 0) {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// TestStream: what a server says of the progress comes before the result, each a document.
func TestStream(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := start(t, nil, newRemote(t, old).URL)
			all := collect(t, w, request("progress", `{}`))
			want := []string{`{"progress":1,"total":3,"message":"step"}`, `{"progress":2,"total":3,"message":"step"}`,
				`{"progress":3,"total":3,"message":"step"}`, `"done"`}
			if got := strings.Join(all, ";"); got != strings.Join(want, ";") {
				t.Errorf("%s", got)
			}
			stream, err := w.StreamInvoke(within(t), request("fail", `{"text":""}`))
			check.Must(t, err)
			if c, err := stream.Recv(); err != nil || c.GetError() != "no such city" || !c.GetDone() {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

// TestOnlyMCPGetsTheRest: a client of gRPC gets the fields of the capability protocol alone, whatever it asks for.
func TestOnlyMCPGetsTheRest(t *testing.T) {
	t.Parallel()
	w := start(t, nil, newRemote(t, false).URL)
	for _, tool := range []string{"structured", "fail"} {
		ctx := metadata.AppendToOutgoingContext(within(t), filter.RestHeader, "1")
		got, err := w.Invoke(ctx, request(tool, `{"text":"x"}`))
		if rest := got.ProtoReflect().GetUnknown(); err != nil || len(rest) > 0 {
			t.Errorf("%s: %v, %q", tool, err, rest)
		}
	}
}

// collect reads the documents of a stream.
func collect(t *testing.T, w *mcpGateway, req *docpb.InvokeRequest) (all []string) {
	t.Helper()
	stream, err := w.StreamInvoke(within(t), req)
	check.Must(t, err)
	for done := false; ; {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) && done {
			return all
		}
		if err != nil || c.GetError() != "" {
			t.Fatalf("%+v, %v", c, err)
		}
		all = append(all, string(bytes.TrimSpace(c.GetData())))
		done = c.GetDone()
	}
}

// TestAttemptsAreTraced: the span of an attempt has the names of OpenTelemetry's conventions of MCP, and the server
// gets its trace context.
func TestAttemptsAreTraced(t *testing.T) {
	t.Parallel()
	collector := oteltest.Start(t)
	tracer := gatewaytest.Tracer(t, collector.Addr, 1)
	r := newRemote(t, false)
	w := startWith(t, gatewaytest.Options{Tracer: tracer}, nil, r.URL)
	at, err := url.Parse(r.URL)
	check.Must(t, err)
	for i, c := range []struct{ tool, span, method, failure string }{
		{"structured", "tools/call structured", "tools/call", ""},
		{"fail", "tools/call fail", "tools/call", "tool_error"},
		{"no_such_tool", "tools/call no_such_tool", "tools/call", "INVALID_ARGUMENT"},
		{upstream.DiscoveryTool, "tools/list", "tools/list", ""},
	} {
		_, _ = w.Invoke(within(t), request(c.tool, `{"text":""}`))
		spans := collector.Spans(t, 2*(i+1))[2*i:]
		client := slices.IndexFunc(spans, func(s *oteltest.Span) bool {
			return s.GetKind() == otlp.Span_SPAN_KIND_CLIENT
		})
		if client < 0 {
			t.Fatalf("%s: %v", c.tool, spans)
		}
		span, tool := spans[client], strings.TrimPrefix(strings.TrimPrefix(c.span, c.method), " ")
		for name, want := range map[string]string{"mcp.method.name": c.method, "gen_ai.tool.name": tool,
			"error.type": c.failure, "rpc.method": "", "rpc.response.status_code": "", "server.port": at.Port(),
			"network.transport":     "tcp",
			"gen_ai.operation.name": map[bool]string{true: "execute_tool"}[tool != ""]} {
			if got := span.Of[name]; got != want {
				t.Errorf("%s: %s is %q, want %q", c.tool, name, got, want)
			}
		}
		if failed := span.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR; span.GetName() != c.span ||
			failed != (c.failure != "") {
			t.Errorf("%s: %s, %v", c.tool, span.GetName(), span.GetStatus())
		}
		r.mu.Lock()
		if got := r.headers.Get("Traceparent"); tool != "" && got != "00-"+span.Trace+"-"+span.ID+"-01" {
			t.Errorf("%s: the server got the trace context %q", c.tool, got)
		}
		r.mu.Unlock()
	}
}

// TestCancel: the end of a call is told to the server; so is its deadline.
func TestCancel(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, old)
			w := start(t, nil, r.URL)
			ctx, cancel := context.WithCancel(within(t))
			go func() {
				<-r.began
				cancel()
			}()
			if _, err := w.Invoke(ctx, request("wait", `{}`)); status.Code(err) != codes.Canceled {
				t.Error(err)
			}
			if err := check.Received(t, r.ended, "the call to end at the server"); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
		})
	}
}

// TestDiscovery: the list of tools is that of a discovery tool, without those that capgate cannot take.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, old)
			schema := json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"https://example.com/x"}}}`)
			r.mcp.AddTool(&sdk.Tool{Name: "bound", Description: "has a schema that cannot be checked",
				InputSchema: schema}, nil)
			r.mcp.AddTool(&sdk.Tool{Name: strings.Repeat("a", 129), Description: "has too long a name",
				InputSchema: schema}, nil)
			w := start(t, nil, r.URL)
			names := func() string {
				got, err := w.Invoke(within(t), request(upstream.DiscoveryTool, `{}`))
				check.Must(t, err)
				var all []struct {
					Name   string
					Output json.RawMessage `json:"output_schema"`
				}
				check.Must(t, json.Unmarshal(got.GetResultJson(), &all))
				var names []string
				for _, one := range all {
					names = append(names, one.Name+string(one.Output))
				}
				return strings.Join(names, " ")
			}
			if got := names(); got != "bound count echo fail image progress structured{\"type\":\"object\"} wait" {
				t.Errorf("%s", got)
			}
			r.mcp.RemoveTools("count", "wait")
			if got := check.Received(t, w.changes, "the change"); got != id {
				t.Errorf("%s has changed", got)
			}
			if got := names(); got != "bound echo fail image progress structured{\"type\":\"object\"}" {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestDeadServer: a call that was not sent goes to another server, and the dead one is found out.
func TestDeadServer(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			live, dying := newRemote(t, old), newRemote(t, old)
			// A request on a connection that breaks may have run, so that only a tool that may be repeated has no
			// error.
			w := start(t, func(_ *upstream.Fleet, f *gatewaytest.Fleet) {
				f.Idempotent = []string{"*"}
			}, live.URL, dying.URL)
			for n := 0; n < 1000 && (dying.calls.Load() == 0 || live.calls.Load() == 0); n++ { // picked at random
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			}
			if dying.calls.Load() == 0 || live.calls.Load() == 0 {
				t.Errorf("one server got all calls; dying.calls %+v; live.calls %+v",
					dying.calls.Load(), live.calls.Load())
			}
			dying.CloseClientConnections()
			dying.Close()
			for range 8 {
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			}
			live.CloseClientConnections()
			live.Close()
			if _, err := w.Invoke(within(t), request("echo", `{}`)); status.Code(err) != codes.Unavailable {
				t.Error(err)
			}
		})
	}
}
