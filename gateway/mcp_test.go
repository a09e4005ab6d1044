package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// revisions lists the MCP revisions that a client negotiates: with and without sessions.
var revisions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}

// mcpFront is a gateway with the capability caps, whose tools are known.
type mcpFront struct {
	gateway    *gatewaytest.Gateway
	capability *gatewaytest.Capability
	known      *catalog.Catalog
	path       string // of requests; empty means that of MCP
	http2      bool   // requests are over HTTP/2
}

// declare publishes tools. A caller may use all of them except "hidden".
func (f *mcpFront) declare(t testing.TB, names ...string) {
	t.Helper()
	tools := make([]manifest.Tool, len(names))
	for i, name := range names {
		tools[i] = tool(t, name)
	}
	f.known.Replace(map[string]catalog.Declaration{
		"caps": {Manifest: &manifest.Manifest{Tools: tools}, Policy: call.Allow},
	})
}

var allTools = []string{gatewaytest.Echo, gatewaytest.Fail, gatewaytest.Empty, gatewaytest.Block, gatewaytest.Break,
	"hidden"}

func startMCP(t testing.TB, change ...func(*gatewaytest.Options)) *mcpFront {
	t.Helper()
	changes := new(tools.ViewChanges)
	known := catalog.New(catalog.Options{Changed: func(capability string) {
		changes.Send(tools.ViewChange{Capability: capability})
	}})
	f := &mcpFront{capability: gatewaytest.NewCapability("b1"), known: known}
	f.declare(t, allTools...)
	options := policy.Options{Source: known, Timeout: check.Patience,
		Store: &ruled{rules: map[policy.Name]call.Verdict{on("caps", "hidden"): call.Block,
			on("caps", "asks"): call.Ask, on("caps", "reviewed"): call.Ask}}}
	decider, err := policy.New(options)
	check.Must(t, err)
	o := gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.capability.Serve(t, call.Doc).Addr},
			Idempotent: []string{gatewaytest.Echo}}},
		Policy: options,
		MCP: tools.Config{Usable: listing.New(known, decider), Changes: changes,
			Describe: known.Describe},
	}
	for _, c := range change {
		c(&o)
	}
	f.gateway = gatewaytest.Start(t, o)
	return f
}

// withHeader adds headers to each request.
type withHeader struct {
	http.RoundTripper
	header http.Header
}

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.header {
		r.Header[name] = values
	}
	return h.RoundTripper.RoundTrip(r)
}

// connect returns a session of the SDK's client in a revision; header holds names and values in turn.
func (f *mcpFront) connect(t *testing.T, revision string, o *sdk.ClientOptions, header ...string) (*sdk.ClientSession,
	error) {
	t.Helper()
	head := http.Header{}
	for i := 0; i < len(header); i += 2 {
		head.Set(header[i], header[i+1])
	}
	client := f.gateway.HTTP1(t)
	client.Transport = clienttest.Bound(withHeader{client.Transport, head})
	client.Timeout = 0 // its transport bounds each wait
	return sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: f.gateway.URL(cmp.Or(f.path, mcp.Path)), HTTPClient: client,
			MaxRetries: -1},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
}

func (f *mcpFront) session(t *testing.T, revision string, o *sdk.ClientOptions, header ...string) *sdk.ClientSession {
	t.Helper()
	s, err := f.connect(t, revision, o, header...)
	if err != nil {
		t.Fatalf("%s: %v", revision, err)
	}
	check.Cleanup(t, func() { _ = s.Close() })
	return s
}

// inEachRevision runs a test with a session of each revision.
func (f *mcpFront) inEachRevision(t *testing.T, test func(t *testing.T, revision string, s *sdk.ClientSession)) {
	t.Helper()
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			test(t, revision, f.session(t, revision, nil))
		})
	}
}

// textOf returns the only text of a result.
func textOf(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	if len(r.Content) != 1 {
		t.Fatalf("%d contents", len(r.Content))
	}
	text, ok := r.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("got %T", r.Content[0])
	}
	return text.Text
}

// refusalOf returns the code and data of a JSON-RPC error.
func refusalOf(t *testing.T, err error) (code int64, data map[string]any) {
	t.Helper()
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		t.Fatalf("not a JSON-RPC error: %v", err)
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Errorf("%s: %v", e.Data, err)
	}
	return e.Code, data
}

// TestMCPTools: a list has exactly the tools that the caller may use, with their schemas.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	f.inEachRevision(t, func(t *testing.T, revision string, s *sdk.ClientSession) {
		list, err := s.ListTools(t.Context(), nil)
		check.Must(t, err)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			if schema, _ := json.Marshal(tool.InputSchema); !strings.Contains(string(schema), `"maximum":9`) ||
				!strings.Contains(string(schema), `"type":"object"`) {
				t.Errorf("%s: %s", tool.Name, schema)
			}
			repeats := tool.Annotations != nil && tool.Annotations.IdempotentHint
			if tool.Description == "" || repeats != (tool.Name == "caps__"+gatewaytest.Echo) {
				t.Errorf("got %+v %+v", tool, tool.Annotations)
			}
		}
		if len(names) != 5 || names[0] != "caps__"+gatewaytest.Echo || slices.Contains(names, "caps__hidden") {
			t.Errorf("got %v", names)
		}
		if revision == revisions[0] && (list.CacheScope != "private" || list.TTLMs == 0) {
			t.Errorf("got %+v", list.Cacheable)
		}
	})
}

// TestMCPCalls: JSON becomes structured content, a tool's error a result, and a rejection a JSON-RPC error.
func TestMCPCalls(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	f.inEachRevision(t, func(t *testing.T, _ string, s *sdk.ClientSession) {
		invoke := func(tool, args string) (*sdk.CallToolResult, error) {
			return s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		}
		const args = `{"n": 9007199254740993, "b":"é"}`
		r, err := invoke("caps__"+gatewaytest.Echo, args)
		check.Must(t, err)
		if textOf(t, r) != compactJSON(t, args) || r.IsError || r.StructuredContent == nil {
			t.Errorf("got %q %v", textOf(t, r), r.StructuredContent)
		}
		if r, err = invoke("caps__"+gatewaytest.Fail, `{}`); err != nil || !r.IsError ||
			!strings.Contains(textOf(t, r), "the tool failed") {
			t.Errorf("got %+v %v", r, err)
		}
		if r, err = invoke("caps__"+gatewaytest.Empty, `{}`); err != nil || r.IsError || len(r.Content) != 0 {
			t.Errorf("got %+v %v", r, err)
		}
		for name, reason := range map[string]string{
			"caps__hidden": "TOOL_UNKNOWN", "other__x": "TOOL_UNKNOWN", "nothing": "TOOL_UNKNOWN",
			"caps__" + gatewaytest.Break: "BROKE",
		} {
			_, err := invoke(name, `{}`)
			if code, data := refusalOf(t, err); data["reason"] != reason || data["request_id"] == "" || code >= 0 {
				t.Errorf("%s: %d %v", name, code, data)
			}
		}
	})
}

// compactJSON returns JSON without whitespace, as the SDK's client sends it.
func compactJSON(t *testing.T, text string) string {
	t.Helper()
	out, err := json.Marshal(json.RawMessage(text))
	check.Must(t, err)
	return string(out)
}

// TestMCPProgress: the pieces of a response are sent as progress, and the result has all of them.
func TestMCPProgress(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			notices := make(chan string, 10)
			s := f.session(t, revision, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
				n *sdk.ProgressNotificationClientRequest) {
				notices <- n.Params.Message
			}})
			p := &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo, Arguments: map[string]any{"a": "bcdefg"}}
			p.SetProgressToken("p")
			r, err := s.CallTool(t.Context(), p)
			check.Must(t, err)
			if piece := check.Received(t, notices, "the notice"); textOf(t, r) != `{"a":"bcdefg"}` ||
				!strings.HasPrefix(textOf(t, r), piece) || piece == "" {
				t.Errorf("%q, then %q", piece, textOf(t, r))
			}
		})
	}
}

// TestMCPCancel: a call ends at its backend when its client cancels it or disconnects.
func TestMCPCancel(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.MCP.Keys = gatewaytest.SharedKeys
	})
	for _, revision := range revisions {
		s := f.session(t, revision, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var calling sync.WaitGroup
		calling.Go(func() {
			_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "caps__" + gatewaytest.Block})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", revision, err)
			}
		})
		check.Received(t, f.capability.Blocked(), "the call")
		cancel()
		check.Ended(t, &calling, "the end of the call")
	}
	f.gateway.Stop(t) // waits for calls
}

// TestMCPCancelElsewhere: a client of a revision with sessions may send the cancellation to another replica.
func TestMCPCancelElsewhere(t *testing.T) {
	t.Parallel()
	keys := func(o *gatewaytest.Options) {
		o.MCP.Keys = gatewaytest.SharedKeys
	}
	a := startMCP(t, keys)
	b := startMCP(t, keys, func(o *gatewaytest.Options) {
		o.MCP.Cancel = func(_ context.Context, request string) error {
			a.gateway.CancelMCP(request)
			return nil
		}
	})
	for _, revision := range revisions[1:] {
		resp, _ := b.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+
			`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		of := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revision}
		var calling sync.WaitGroup
		calling.Go(func() {
			if _, text := a.post(t, `{"jsonrpc":"2.0","id":"r","method":"tools/call","params":{"name":"caps__block"}}`,
				of...); strings.Contains(text, `"result"`) {
				t.Errorf("%s: %s", revision, text)
			}
		})
		check.Received(t, a.capability.Blocked(), "the call")
		if resp, text := b.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"r"}}`,
			of...); resp.StatusCode != http.StatusAccepted {
			t.Errorf("%s: %d %s", revision, resp.StatusCode, text)
		}
		check.Ended(t, &calling, "the end of the call")
	}
}
