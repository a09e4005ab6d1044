package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
)

// TestMCPToolDetails: a tool declares whether its calls change anything and may be repeated, as configured, and
// the schema of its results. Before 2026-07-28 results are objects. A read-only tool is never destructive.
func TestMCPToolDetails(t *testing.T) {
	t.Parallel()
	object, list := `{"properties":{"n":{"type":"integer"}},"type":"object"}`, `{"type":"array"}`
	schema := func(text string) *toolschema.Schema {
		s, err := toolschema.Compile([]byte(text))
		check.Must(t, err)
		return s
	}
	args := schema(`{}`)
	f := startMCP(t, func(o *gatewaytest.Options) { o.Fleets[0].Sources = []string{"reads", "reviewed"} })
	f.known.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Allow, Manifest: &manifest.Manifest{
		Tools: []manifest.Tool{{Name: "reads", Description: "d", Schema: args, Output: schema(object)},
			{Name: "asks", Description: "d", Schema: args, Output: schema(list)},
			{Name: gatewaytest.Echo, Description: "d", Schema: args},
			{Name: "reviewed", Description: "d", Schema: args}}}}})
	f.inEachRevision(t, func(t *testing.T, revision string, s *sdk.ClientSession) {
		list, err := s.ListTools(t.Context(), nil)
		check.Must(t, err)
		got := ""
		for _, tool := range list.Tools {
			output, _ := json.Marshal(tool.OutputSchema)
			hints := "none"
			if a := tool.Annotations; a != nil {
				hints = fmt.Sprintf("%t %t %s", a.ReadOnlyHint, a.IdempotentHint, shown(a.DestructiveHint))
			}
			got += fmt.Sprintf("%s %s %s; ", tool.Name, hints, output)
		}
		of := "null"
		if revision == revisions[0] {
			of = `{"type":"array"}`
		}
		if want := "caps__reads true false false " + object + "; caps__asks none " + of +
			"; caps__echo false true - null; caps__reviewed true false false null; "; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

// shown formats a hint that may be absent.
func shown(hint *bool) string {
	if hint == nil {
		return "-"
	}
	return fmt.Sprint(*hint)
}

// TestMCPResultsMatchTheirSchemas: a result that does not match its tool's schema becomes an error with the
// same content, if the client received the schema.
func TestMCPResultsMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	of := func(name, output string) manifest.Tool {
		s, err := toolschema.Compile([]byte(output))
		check.Must(t, err)
		any, err := toolschema.Compile([]byte(`{}`))
		check.Must(t, err)
		return manifest.Tool{Name: name, Description: "d", Schema: any, Output: s}
	}
	f.known.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Allow, Manifest: &manifest.Manifest{
		Tools: []manifest.Tool{of(gatewaytest.Echo, `{"type":"object","required":["n"],
			"properties":{"n":{"type":"integer"},"m":{"$ref":"#/$defs/twice"}},
			"$defs":{"twice":{"allOf":[{"properties":{"x":{"$ref":"#/$defs/twice"}}},
				{"properties":{"x":{"$ref":"#/$defs/twice"}}}]}}}`),
			of(gatewaytest.Empty, `{"type":"object"}`), of(gatewaytest.Fail, `{"type":"object"}`),
			of(gatewaytest.Hold, `{"type":["object","array"],"minProperties":1}`)}}}})
	f.capability.Release() // number of calls of Hold
	nested := strings.Repeat(`{"x":`, 60) + "0" + strings.Repeat("}", 60)
	f.inEachRevision(t, func(t *testing.T, revision string, s *sdk.ClientSession) {
		for name, c := range map[string]struct{ tool, args, wrong string }{
			"matches":               {gatewaytest.Echo, `{"n":1,"N":"x","m":2}`, ""},
			"another type":          {gatewaytest.Echo, `{"n":"secret"}`, `at "/n": got string, want integer`},
			"a member missing":      {gatewaytest.Echo, `{}`, `missing property 'n'`},
			"too costly to tell":    {gatewaytest.Echo, `{"m":` + nested + `}`, ""},
			"no result":             {gatewaytest.Empty, `{}`, "it has no structured content"},
			"the tool's own error":  {gatewaytest.Fail, `{}`, "own"},
			"clients are not told":  {gatewaytest.Hold, `{}`, "unless old"},
			"it matches and is old": {gatewaytest.Hold, `{"n":1}`, ""},
		} {
			for _, token := range []any{nil, "t1"} {
				params := &sdk.CallToolParams{Name: "caps__" + c.tool, Arguments: json.RawMessage(c.args),
					Meta: sdk.Meta{}}
				if token != nil {
					params.SetProgressToken(token)
				}
				wrong := c.wrong
				if wrong == "unless old" {
					wrong = map[bool]string{true: "minProperties: got 0, want 1"}[revision == revisions[0]]
				}
				r, err := s.CallTool(t.Context(), params)
				switch {
				case err != nil:
					t.Errorf("%s: %v", name, err)
				case wrong == "own":
					if text, ok := r.Content[0].(*sdk.TextContent); !r.IsError || !ok ||
						strings.Contains(text.Text, "schema") {
						t.Errorf("%s: %+v; ok %+v; text %+v", name, r, ok, text)
					}
				case wrong == "":
					if r.IsError || r.StructuredContent == nil || textOf(t, r) != c.args {
						t.Errorf("%s: %.200s", name, textOf(t, r))
					}
				default:
					text, _ := r.Content[0].(*sdk.TextContent)
					if !r.IsError || r.StructuredContent != nil || text == nil || !strings.Contains(text.Text, wrong) ||
						strings.Contains(text.Text, "secret") {
						t.Errorf("%s: %+v, %+v", name, r, text)
					}
					if last, ok := r.Content[len(r.Content)-1].(*sdk.TextContent); c.tool != gatewaytest.Empty &&
						(!ok || len(r.Content) != 2 || last.Text != c.args) {
						t.Errorf("%s: %+v", name, r.Content)
					}
				}
			}
		}
	})
}

// TestMCPMeta: values in _meta of a call reach its backend and replace those in headers. A call with an
// idempotency key runs once.
func TestMCPMeta(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Answers = gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{})
	})
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, revision := range revisions {
		s := f.session(t, revision, nil, "X-Session-Id", "of-header", "X-Thread-Id", "of-header")
		for range 2 {
			r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo, Meta: sdk.Meta{
				"dev.capgate/idempotency-key": revision, "dev.capgate/session-id": "s1", "dev.capgate/thread-id": "t1",
				"traceparent": "00-" + trace + "-b7ad6b7169203331-01"}})
			if err != nil || textOf(t, r) != "{}" {
				t.Errorf("%s: %+v %v", revision, r, err)
			}
		}
	}
	seen := f.capability.Seen()
	if len(seen) != len(revisions) {
		t.Errorf("%d calls", len(seen))
	}
	for _, s := range seen {
		if s.Request.GetSessionId() != "s1" || s.Request.GetThreadId() != "t1" ||
			!strings.Contains(strings.Join(s.Metadata.Get("traceparent"), ""), trace) {
			t.Errorf("got %v %v", s.Request, s.Metadata)
		}
	}
}

// TestMCPCallsAreTraced: spans of a call continue the trace of its request, and name tools/call.
func TestMCPCallsAreTraced(t *testing.T) {
	t.Parallel()
	collector := oteltest.Start(t)
	f := startMCP(t, func(o *gatewaytest.Options) { o.Tracer = gatewaytest.Tracer(t, collector.Addr, 0) })
	for _, revision := range revisions {
		before := len(collector.Spans(t, 0))
		s := f.session(t, revision, nil)
		if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__echo",
			Meta: sdk.Meta{"traceparent": sampled}}); err != nil {
			t.Fatal(err)
		}
		for _, span := range collector.Spans(t, before+2)[before:] {
			want := map[otlp.Span_SpanKind]string{otlp.Span_SPAN_KIND_SERVER: "tools/call",
				otlp.Span_SPAN_KIND_CLIENT: ""}
			if got := span.Of["mcp.method.name"]; span.Trace != aTrace || got != want[span.GetKind()] {
				t.Errorf("%s: %s of the trace %s is %q", revision, span.GetName(), span.Trace, got)
			}
			server := span.GetKind() == otlp.Span_SPAN_KIND_SERVER
			if of, over := span.Of["mcp.protocol.version"], span.Of["network.transport"]; server &&
				(of != revision || over != "tcp") {
				t.Errorf("%s: the span has the revision %q over %q", revision, of, over)
			}
		}
	}
}

// TestMCPPages: a long list comes in pages, with each tool once; a cursor that the server did not issue is
// rejected.
func TestMCPPages(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	var want []string
	for i := range 1200 {
		want = append(want, fmt.Sprintf("tool%04d", i))
	}
	f.declare(t, want...)
	f.inEachRevision(t, func(t *testing.T, _ string, s *sdk.ClientSession) {
		var got []string
		pages := 0
		for params := new(sdk.ListToolsParams); pages == 0 || params.Cursor != ""; pages++ {
			list, err := s.ListTools(t.Context(), params)
			check.Must(t, err)
			for _, tool := range list.Tools {
				got = append(got, strings.TrimPrefix(tool.Name, "caps__"))
			}
			params.Cursor = list.NextCursor
		}
		if pages != 3 || !slices.Equal(got, want) {
			t.Errorf("%d tools in %d pages, want %d in 3", len(got), pages, len(want))
		}
		for _, cursor := range []string{"%", "YQ", strings.Repeat("YQpi", 100)} {
			_, err := s.ListTools(t.Context(), &sdk.ListToolsParams{Cursor: cursor})
			var rpc *jsonrpc.Error
			if !errors.As(err, &rpc) || rpc.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("%.20q: %v; rpc %+v", cursor, err, rpc)
			}
		}
	})
}
