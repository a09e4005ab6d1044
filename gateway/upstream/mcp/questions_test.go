//nolint:staticcheck // sampling and roots are deprecated, and still a part of the protocol
package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// startAsking runs a gateway with the front door of MCP, in front of a server whose tools ask their client.
func startAsking(t *testing.T, server *remote, allowed []string, change ...func(*gatewaytest.Options)) *mcpGateway {
	t.Helper()
	known := catalog.New(catalog.Options{})
	var all []manifest.Tool
	schema, err := toolschema.Compile([]byte(`{"type":"object"}`))
	check.Must(t, err)
	for _, name := range []string{"asks", "echo"} {
		all = append(all, manifest.Tool{Name: name, Description: name, Schema: schema})
	}
	known.Replace(map[string]catalog.Declaration{id: {Manifest: &manifest.Manifest{Tools: all}, Policy: call.Allow}})
	options := policy.Options{Source: known, Timeout: check.Patience}
	decider, err := policy.New(options)
	check.Must(t, err)
	asked := questions.New()
	o := gatewaytest.Options{Policy: options, MCP: tools.Config{Usable: listing.New(known, decider),
		Describe: known.Describe, Keys: gatewaytest.SharedKeys, Questions: asked}}
	with := upstream.Options{Version: "test", Questions: asked, Sessions: server.shared}
	if server.signs != nil {
		o.Assert, with.Sign = server.signs, server.signs.Sign
	}
	for _, c := range change {
		c(&o)
	}
	return startServers(t, o, with,
		func(f *upstream.Fleet, of *gatewaytest.Fleet) {
			settings(f).Questions = allowed
			if server.configure != nil {
				server.configure(f)
			}
			if server.shared != nil {
				settings(f).Sessions = mcp.SharedSessions
			}
			if server.signs != nil {
				asserts(f, of)
				of.Assertion = f.Assertion
			}
		}, server.URL)
}

// declared returns the kinds of questions that a client declares, in order.
func declared(p *sdk.InitializeParams) (all string) {
	if p == nil || p.Capabilities == nil {
		return ""
	}
	c := p.Capabilities
	if e := c.Elicitation; e != nil {
		all += fmt.Sprint("forms:", e.Form != nil, " urls:", e.URL != nil, " ")
	}
	if c.Sampling != nil {
		all += "sampling "
	}
	if c.RootsV2 != nil {
		all += "roots"
	}
	return all
}

// newAsking serves a tool that requests input in one of the eras: a form, a sample of the model, and the roots.
func newAsking(t *testing.T, old bool) *remote {
	t.Helper()
	r := newRemote(t, old)
	form := &sdk.ElicitParams{Message: "What is your name?", RequestedSchema: map[string]any{"type": "object",
		"properties": map[string]any{"name": map[string]any{"type": "string"}}}}
	sample := &sdk.CreateMessageParams{MaxTokens: 10,
		Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "greet"}}}}
	done := func(name any, greeting sdk.Content, roots []*sdk.Root) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(name, " ",
			greeting.(*sdk.TextContent).Text, " ", roots[0].URI)}}}
	}
	ask := func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		text := declared(q.Session.InitializeParams())
		r.declared.Store(&text)
		if !old {
			in := q.Params.InputResponses
			if len(in) < 3 || q.Params.RequestState != "state of the server" {
				return &sdk.CallToolResult{RequestState: "state of the server", InputRequests: sdk.InputRequestMap{
					"n": form, "g": sample, "r": &sdk.ListRootsParams{}}}, nil
			}
			return done(in["n"].(*sdk.ElicitResult).Content["name"],
				in["g"].(*sdk.CreateMessageWithToolsResult).Content[0], in["r"].(*sdk.ListRootsResult).Roots), nil
		}
		name, err := q.Session.Elicit(ctx, form)
		if err != nil {
			return nil, err
		}
		greeting, err := q.Session.CreateMessage(ctx, sample)
		if err != nil {
			return nil, err
		}
		roots, err := q.Session.ListRoots(ctx, &sdk.ListRootsParams{})
		if err != nil {
			return nil, err
		}
		return done(name.Content["name"], greeting.Content, roots.Roots), nil
	}
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)}, ask)
	return r
}

// answering is a client that answers all kinds of questions.
func answering(seen func(message string)) *sdk.Client {
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			seen(r.Params.Message)
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		},
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Role: "assistant", Model: "m",
				Content: &sdk.TextContent{Text: "hello"}}, nil
		},
	})
	c.AddRoots(&sdk.Root{URI: "file:///home/ann"})
	return c
}

// connect starts a session of a client in a revision.
func (w *mcpGateway) connect(t *testing.T, c *sdk.Client, revision string) *sdk.ClientSession {
	t.Helper()
	client := &http.Client{Transport: clienttest.Bound(&http.Transport{DisableKeepAlives: true})}
	s, err := c.Connect(within(t), &sdk.StreamableClientTransport{Endpoint: "http://" + w.gateway.Addr + "/mcp",
		HTTPClient: client, MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	check.Must(t, err)
	check.Cleanup(t, func() { _ = s.Close() })
	return s
}

// ask calls the tool that asks.
func ask(t *testing.T, s *sdk.ClientSession) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(within(t), &sdk.CallToolParams{Name: id + "__asks"})
	if err != nil {
		return err.Error(), true
	}
	if len(r.Content) != 1 {
		t.Fatalf("%d contents", len(r.Content))
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

// TestQuestionsPass: a client answers the questions of a server, in each combination of their revisions but one, in
// which the gateway declares nothing and the tool gets an error at once. The message of a form names the tool first.
func TestQuestionsPass(t *testing.T) {
	t.Parallel()
	for server, old := range eras {
		for _, client := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
			t.Run(server+" "+client, func(t *testing.T) {
				t.Parallel()
				r := newAsking(t, old)
				w := startAsking(t, r, []string{"elicitation", "sampling", "roots"})
				var message string
				s := w.connect(t, answering(func(m string) { message = m }), client)
				if old && client == "2026-07-28" {
					text, failed := ask(t, s)
					if !failed || !strings.Contains(text, "does not support") || message != "" {
						t.Errorf("%q, %t, and the client shows %q", text, failed, message)
					}
					if got := *r.declared.Load(); got != "" {
						t.Errorf("the gateway declares %q for a client that answers no question on a stream", got)
					}
					return
				}
				for range 2 {
					if text, failed := ask(t, s); failed || text != "Ann hello file:///home/ann" {
						t.Errorf("%q, %t", text, failed)
					}
				}
				if got := *r.declared.Load(); got != "forms:true urls:false sampling roots" {
					t.Errorf("the gateway declares %q", got)
				}
				if !strings.HasPrefix(message, `Message of the tool "asks" of "`+id+`"`) ||
					!strings.HasSuffix(message, "What is your name?") {
					t.Errorf("the form has the message %q", message)
				}
			})
		}
	}
}
