package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

const id = "remote" // of the only fleet

// eras are the two of the protocol: servers without sessions, and with them.
var eras = map[string]bool{"2026-07-28": false, "2025-11-25": true}

// remote is an MCP server of the Go SDK.
type remote struct {
	*httptest.Server
	mcp     *sdk.Server
	inits   atomic.Int32 // sessions that were opened
	calls   atomic.Int32 // of tools/call that came
	began   chan struct{}
	ended   chan error    // of calls of wait, or of their requests where the server has no sessions
	release chan struct{} // closed: those calls end
	freed   sync.Once
	sent    atomic.Int64 // bytes of hostile answers
	handler atomic.Pointer[http.Handler]
	// declared holds the kinds of questions that the client of the last call declared, see declared.
	declared atomic.Pointer[string]

	signs  *assertion.Signer // of startAsking's gateway; nil: the server gets no assertions
	shared *sessions.Shared  // of startAsking's gateway; nil: it shares no sessions
	// configure changes the fleet of startAsking's gateway; it may be nil.
	configure func(*upstream.Fleet)

	mu      sync.Mutex
	headers http.Header // of the last tools/call
}

type echoArgs struct {
	Text string `json:"text"`
}

// newRemote serves tools in one of the eras.
func newRemote(t *testing.T, old bool) *remote {
	t.Helper()
	r := &remote{began: make(chan struct{}, 16), ended: make(chan error, 16),
		release: make(chan struct{})}
	r.mcp = sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "1"},
		&sdk.ServerOptions{CompletionHandler: completes})
	sdk.AddTool(r.mcp, &sdk.Tool{Name: "echo", Description: "repeats"},
		func(_ context.Context, _ *sdk.CallToolRequest, in echoArgs) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
		})
	sdk.AddTool(r.mcp, &sdk.Tool{Name: "fail", Description: "fails"},
		func(context.Context, *sdk.CallToolRequest, echoArgs) (*sdk.CallToolResult, any, error) {
			return nil, nil, fmt.Errorf("no such city")
		})
	raw := json.RawMessage(`{"type":"object"}`)
	r.mcp.AddTool(&sdk.Tool{Name: "structured", Description: "has structured content", InputSchema: raw,
		OutputSchema: raw},
		func(_ context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "x"}},
				StructuredContent: q.Params.Arguments}, nil
		})
	r.mcp.AddTool(&sdk.Tool{Name: "image", Description: "has an image", InputSchema: raw},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "see"},
				&sdk.ImageContent{Data: []byte("img"), MIMEType: "image/png"}}}, nil
		})
	r.mcp.AddTool(&sdk.Tool{Name: "progress", Description: "tells", InputSchema: raw},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for i := 1; i <= 3; i++ {
				_ = q.Session.NotifyProgress(ctx,
					&sdk.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: float64(i),
						Total: 3, Message: "step"})
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
		})
	r.mcp.AddTool(&sdk.Tool{Name: "wait", Description: "waits", InputSchema: raw},
		func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			r.began <- struct{}{}
			select {
			case <-ctx.Done():
				r.ended <- ctx.Err()
			case <-r.release:
			}
			return &sdk.CallToolResult{}, ctx.Err()
		})
	r.mcp.AddTool(&sdk.Tool{Name: "count", Description: "counts the calls of a session", InputSchema: raw}, r.count())
	served := http.Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return r.mcp },
		&sdk.StreamableHTTPOptions{Stateless: !old}))
	r.handler.Store(&served)
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, q *http.Request) { r.serve(w, q, old) }))
	_ = r.Listener.Close()
	r.Listener = check.Listen(t)
	r.Start()
	check.Cleanup(t, func() {
		r.free()
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// count counts the calls of each session.
func (r *remote) count() sdk.ToolHandler {
	counts := map[string]int{}
	return func(_ context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		counts[q.Session.ID()]++
		return &sdk.CallToolResult{StructuredContent: map[string]int{"calls": counts[q.Session.ID()]}}, nil
	}
}

// free ends the calls of wait.
func (r *remote) free() { r.freed.Do(func() { close(r.release) }) }

// restart forgets all sessions, as a process that starts again.
func (r *remote) restart() {
	served := http.Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return r.mcp }, nil))
	r.handler.Store(&served)
}

// restartStrictly is restart for a server that answers a request of an unknown session with 400, as those do that are
// made after the example of the TypeScript SDK.
func (r *remote) restartStrictly() {
	var known sync.Map
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return r.mcp }, nil)
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if session := q.Header.Get("Mcp-Session-Id"); session != "" {
			if _, ok := known.Load(session); !ok {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":`+
					`"Bad Request: No valid session ID provided"},"id":null}`)
				return
			}
		}
		next.ServeHTTP(w, q)
		if session := w.Header().Get("Mcp-Session-Id"); session != "" {
			known.Store(session, true)
		}
	}))
	r.handler.Store(&served)
}

func (r *remote) serve(w http.ResponseWriter, q *http.Request, old bool) {
	if old && q.Header.Get("Mcp-Protocol-Version") >= "2026" {
		http.Error(w, "Bad Request: unsupported protocol version", http.StatusBadRequest)
		return
	}
	if q.Method == http.MethodPost {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		switch text := string(body); {
		case strings.Contains(text, `"method":"initialize"`):
			r.inits.Add(1)
		case strings.Contains(text, `"method":"tools/call"`):
			r.calls.Add(1)
			if !old && strings.Contains(text, `"name":"wait"`) { // the Go SDK does not tell the tool
				context.AfterFunc(q.Context(), func() { r.ended <- q.Context().Err() })
			}
			r.mu.Lock()
			r.headers = q.Header.Clone()
			r.mu.Unlock()
		}
	}
	(*r.handler.Load()).ServeHTTP(w, q)
}

// mcpGateway is a gateway with one fleet of MCP servers.
type mcpGateway struct {
	docpb.CapabilityClient
	gateway *gatewaytest.Gateway
	servers upstream.Backends
	changes chan string
}

// start runs a gateway. edit may change the fleets.
func start(t *testing.T, edit func(*upstream.Fleet, *gatewaytest.Fleet), urls ...string) *mcpGateway {
	t.Helper()
	return startWith(t, gatewaytest.Options{}, edit, urls...)
}

// startWith is start with further options.
func startWith(t *testing.T, o gatewaytest.Options, edit func(*upstream.Fleet, *gatewaytest.Fleet),
	urls ...string) *mcpGateway {
	t.Helper()
	return startServers(t, o, upstream.Options{Version: "test"}, edit, urls...)
}

// startServers is startWith with options of the servers.
func startServers(t *testing.T, o gatewaytest.Options, with upstream.Options, edit func(*upstream.Fleet,
	*gatewaytest.Fleet), urls ...string) *mcpGateway {
	t.Helper()
	w := &mcpGateway{changes: make(chan string, 100)}
	with.Changed = func(c string) {
		select {
		case w.changes <- c:
		default:
		}
	}
	w.servers = mcp.Open(with)
	fleet := upstream.Fleet{Capability: id, Backends: urls, Protocol: &mcp.Settings{}}
	of := gatewaytest.Fleet{Capability: id, Backends: urls, Dialect: call.Doc, Protocol: &mcp.Settings{},
		Asks: w.servers.Probe(id), Deadlines: router.Deadlines{Default: patience, Max: patience}}
	if edit != nil {
		edit(&fleet, &of)
	}
	w.servers.Set([]upstream.Fleet{fleet})
	o.Fleets, o.Closed = []gatewaytest.Fleet{of}, w.servers.Close
	o.Local = upstream.Protocols{mcp.Name: w.servers}.Serve
	w.gateway = gatewaytest.Start(t, o)
	conn, err := clienttest.NewConn("passthrough:///"+w.gateway.Addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	w.CapabilityClient = docpb.NewCapabilityClient(conn)
	return w
}

func settings(f *upstream.Fleet) *mcp.Settings { return f.Protocol.(*mcp.Settings) }

func request(tool, args string) *docpb.InvokeRequest {
	return &docpb.InvokeRequest{CapabilityId: id, ToolName: tool, ArgsJson: []byte(args)}
}

// patience bounds each call: the largest lists and schemas take seconds of a processor, which may be busy.
const patience = 5 * check.Patience

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	check.Cleanup(t, cancel)
	return ctx
}

// wantResult calls a tool.
func (w *mcpGateway) wantResult(t *testing.T, req *docpb.InvokeRequest, want string) {
	t.Helper()
	got, err := w.Invoke(within(t), req)
	if err != nil || got.GetError() != "" || string(got.GetResultJson()) != want {
		t.Errorf("%s: %s, %q, %v; want %s", req.GetToolName(), got.GetResultJson(), got.GetError(), err, want)
	}
}
