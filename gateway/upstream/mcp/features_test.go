package mcp_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gatewaystatus "github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// completes serves completions of a server.
func completes(_ context.Context, q *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{
		Values: []string{q.Params.Ref.Name + q.Params.Ref.URI + " " + q.Params.Argument.Value + "!"}}}, nil
}

// smallMessages limits the messages of servers.
func smallMessages(f *upstream.Fleet, _ *gatewaytest.Fleet) { settings(f).MaxMessage = maxMessage }

// newFeatures returns a server with a prompt and a resource.
func newFeatures(t *testing.T, old bool) *remote {
	t.Helper()
	r := newRemote(t, old)
	r.mcp.AddPrompt(&sdk.Prompt{Name: "greet", Title: "Greeting", Description: "greets",
		Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, q *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: "a greeting", Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "hello " + q.Params.Arguments["who"]}}}}, nil
		})
	r.mcp.AddResource(&sdk.Resource{Name: "bytes", URI: "bytes://a", MIMEType: "image/png"},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "bytes://a", MIMEType: "image/png",
				Blob: []byte{0, 255}}}}, nil
		})
	return r
}

// inside makes calls as the gateway itself does. Callers call features over MCP alone.
type inside struct {
	docpb.CapabilityClient
	gateway *gatewaytest.Gateway
}

func (c inside) Invoke(ctx context.Context, req *docpb.InvokeRequest, _ ...grpc.CallOption) (*docpb.InvokeResponse,
	error) {
	return c.gateway.Invoke(ctx, id, req)
}

// startInside is start with calls of the gateway itself.
func startInside(t *testing.T, edit func(*upstream.Fleet, *gatewaytest.Fleet), url string) *mcpGateway {
	t.Helper()
	w := start(t, edit, url)
	w.CapabilityClient = inside{w.CapabilityClient, w.gateway}
	return w
}

// listed has the resources of that server, as they are listed.
const listed = `"resources":[{"name":"bytes","uri":"bytes://a","mimeType":"image/png"}],"templates":null}`

// TestFeatures: prompts, resources and completions of a server are calls of a capability, in both eras.
func TestFeatures(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := startInside(t, nil, newFeatures(t, old).URL)
			w.wantResult(t, request("prompts/greet", `{"who":"ann"}`), `{"description":"a greeting","messages":[`+
				`{"content":{"type":"text","text":"hello ann"},"role":"user"}]}`)
			w.wantResult(t, request(manifest.Complete, `{"ref":{"type":"ref/prompt","name":"greet"},`+
				`"argument":{"name":"who","value":"a"}}`), `{"completion":{"values":["greet a!"]}}`)
			w.wantResult(t, request(manifest.ListFeatures, `{}`), `{"prompts":[{"name":"greet","description":"greets",`+
				`"arguments":[{"name":"who","required":true}],"title":"Greeting"}],`+listed)
			w.wantResult(t, request(manifest.ReadResource, `{"uri":"bytes://a"}`),
				`{"contents":[{"uri":"bytes://a","mimeType":"image/png","blob":"AP8="}]}`)
			for _, c := range []struct {
				tool, args string
				want       codes.Code
			}{
				{"prompts/other", `{}`, codes.InvalidArgument},
				{"prompts/greet ", `{"who":"a"}`, codes.InvalidArgument},
				{"prompts/greet\n", `{"who":"a"}`, codes.InvalidArgument},
				{"prompts/greet", `{"who":7}`, codes.InvalidArgument},
				{"prompts/greet", `{"who":"a","who":"b"}`, codes.InvalidArgument},
				{manifest.ReadResource, `{"uri":"bytes://b"}`, codes.NotFound},
				{manifest.ReadResource, `{"uri":"a"}`, codes.InvalidArgument},
				{manifest.ReadResource, `{"uri":"bytes://a","more":1}`, codes.InvalidArgument},
				{manifest.Complete, `{"ref":{"type":"ref/prompt","name":"greet"}}`, codes.InvalidArgument},
				{manifest.Complete, `{"REF":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who"}}`,
					codes.InvalidArgument},
			} {
				if _, err := w.Invoke(within(t), request(c.tool, c.args)); status.Code(err) != c.want {
					t.Errorf("%s %s: %v, want %s", c.tool, c.args, err, c.want)
				}
			}
		})
	}
}

// TestFeaturesChange: a server says that its prompts or resources have changed, in both eras.
func TestFeaturesChange(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		for what, change := range map[string]func(*sdk.Server){
			"prompts":   func(s *sdk.Server) { s.AddPrompt(&sdk.Prompt{Name: "new"}, nil) },
			"resources": func(s *sdk.Server) { s.AddResource(&sdk.Resource{Name: "new", URI: "new://a"}, nil) },
			"templates": func(s *sdk.Server) {
				s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "new", URITemplate: "new://{a}"}, nil)
			},
		} {
			t.Run(what+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newFeatures(t, old)
				w := start(t, nil, r.URL)
				check.Holds(t, "the gateway to listen, and to be notified", func() bool {
					change(r.mcp)
					return len(w.changes) > 0
				})
				if got := check.Received(t, w.changes, "the change"); got != id {
					t.Errorf("%s has changed", got)
				}
			})
		}
	}
}

// TestHostileFeatures: a result of a feature with members of other types is rejected, and the next call works.
func TestHostileFeatures(t *testing.T) {
	t.Parallel()
	message := `{"role":"user","content":{"type":"text","text":"x"}}`
	for name, c := range map[string]struct{ tool, result, want string }{
		"no messages":          {"prompts/greet", `{}`, "not valid for prompts/get"},
		"messages of a number": {"prompts/greet", `{"messages":7}`, "not valid for prompts/get"},
		"another role":         {"prompts/greet", `{"messages":[{"role":"me","content":{"type":"x"}}]}`, "not valid"},
		"no content":           {"prompts/greet", `{"messages":[{"role":"user"}]}`, "not valid"},
		"a member twice":       {"prompts/greet", `{"messages":[],"messages":[` + message + `]}`, "twice"},
		"another case":         {"prompts/greet", `{"Messages":[` + message + `]}`, "not valid"},
		"values of a number":   {manifest.Complete, `{"completion":{"values":7}}`, "not valid for completion/complete"},
		"no contents":          {manifest.ReadResource, `{}`, "not valid for resources/read"},
		"contents of a number": {manifest.ReadResource, `{"contents":[7]}`, "not valid"},
		"bytes of a number":    {manifest.ReadResource, `{"contents":[{"uri":"a:b","blob":7}]}`, "not valid"},
		"text and bytes":       {manifest.ReadResource, `{"contents":[{"uri":"a:b","blob":"","text":""}]}`, "not"},
		"contents without uri": {manifest.ReadResource, `{"contents":[{"text":""}]}`, "not valid"},
		"too large": {"prompts/greet", `{"messages":[],"description":"` +
			strings.Repeat("x", maxMessage) + `"}`, "larger"},
	} {
		for era, old := range eras {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newFeatures(t, old)
				method, args := c.tool, `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a"}}`
				switch {
				case strings.HasPrefix(c.tool, manifest.PromptPrefix):
					method, args = "prompts/get", `{"who":"hostile"}`
				case c.tool == manifest.ReadResource:
					args = `{"uri":"bytes://a"}`
				}
				r.hostile(method, "", says(200, "application/json", `{"jsonrpc":"2.0","id":ID,"result":`+c.result+`}`))
				w := startInside(t, smallMessages, r.URL)
				got, err := w.Invoke(within(t), request(c.tool, args))
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%.200s, %v; want %s", got.GetResultJson(), err, c.want)
				}
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			})
		}
	}
}

// TestErrorsOfFeatures: a server that has no resources or no prompts lacks the one of a call, and the error of a
// prompt's arguments has a reason. The code is there once.
func TestErrorsOfFeatures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool, failure string
		code          codes.Code
		reason, want  string
	}{
		"no resources": {manifest.ReadResource, `"code":-32601,"message":"x"`, codes.NotFound, "",
			"MCP error -32601: x"},
		"no prompts": {"prompts/greet", `"code":-32601,"message":"x"`, codes.NotFound, "",
			"MCP error -32601: x"},
		"no completions": {manifest.Complete, `"code":-32601,"message":"x"`, codes.Unimplemented, "",
			"MCP error -32601: x"},
		"arguments": {"prompts/greet", `"code":-32602,"message":"MCP error -32602: who is missing"`,
			codes.InvalidArgument, "ARGUMENTS_INVALID",
			"the MCP server rejects the prompt with these arguments: MCP error -32602: who is missing"},
		"another code": {"prompts/greet", `"code":-32603,"message":"MCP error -32602: x"`, codes.Internal, "",
			"MCP error -32603: MCP error -32602: x"},
	} {
		for era, old := range eras {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newFeatures(t, old)
				method, args := c.tool, `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a"}}`
				switch c.tool {
				case "prompts/greet":
					method, args = "prompts/get", `{}`
				case manifest.ReadResource:
					args = `{"uri":"bytes://a"}`
				}
				r.hostile(method, "", says(200, "application/json",
					`{"jsonrpc":"2.0","id":ID,"error":{`+c.failure+`}}`))
				_, err := startInside(t, nil, r.URL).Invoke(within(t), request(c.tool, args))
				if st := status.Convert(err); st.Code() != c.code || st.Message() != c.want ||
					gatewaystatus.InfoOf(err).GetReason() != c.reason {
					t.Errorf("%v, %v; want %s %s %s", err, gatewaystatus.InfoOf(err), c.code, c.want, c.reason)
				}
			})
		}
	}
}

// TestArgumentsOfPrompts: the error of a prompt names the first argument that is not a string.
func TestArgumentsOfPrompts(t *testing.T) {
	t.Parallel()
	w := startInside(t, nil, newFeatures(t, false).URL)
	for args, want := range map[string]string{
		`{"who":"a","b/~c":[],"z":1}`: "/b~1~0c", `{"who":7}`: "/who", `{"who":null,"z":false}`: "/z",
	} {
		_, err := w.Invoke(within(t), request("prompts/greet", args))
		info := gatewaystatus.InfoOf(err)
		if info.GetReason() != "ARGUMENTS_INVALID" || info.GetMetadata()["pointer"] != want ||
			!strings.Contains(err.Error(), "must be strings, and") {
			t.Errorf("%s: %v, %v; want %s", args, err, info, want)
		}
	}
}

// TestHostileListsOfFeatures: a list that exceeds a limit is left out as a whole, and a feature that clients cannot use
// alone.
func TestHostileListsOfFeatures(t *testing.T) {
	t.Parallel()
	const none = `{"prompts":null,` + listed
	var page atomic.Int64
	for name, c := range map[string]struct{ result, want string }{
		"pages without end": {`{"prompts":[],"nextCursor":"PAGE"}`, none},
		"page again":        {`{"prompts":[],"nextCursor":"a"}`, none},
		"too many": {`{"prompts":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, 1001), ",") + `]}`,
			none},
		"prompts of a number": {`{"prompts":7}`, none},
		"some": {`{"prompts":[7,{},{"name":7},{"name":"a\nb"},{"name":"` + strings.Repeat("x", 129) + `"},` +
			`{"name":"odd","arguments":[{"name":7}]},{"name":"good","title":7,"icons":[1],"description":"first"},` +
			`{"name":"good","description":"second"}]}`,
			`{"prompts":[{"name":"good","description":"first"}],` + listed},
	} {
		for era, old := range eras {
			t.Run(name+" "+era, func(t *testing.T) {
				t.Parallel()
				r := newFeatures(t, old)
				r.hostile("prompts/list", "", func(w http.ResponseWriter, q *http.Request, id string) {
					text := strings.ReplaceAll(c.result, "PAGE", strconv.FormatInt(page.Add(1), 10))
					says(200, "application/json", `{"jsonrpc":"2.0","id":ID,"result":`+text+`}`)(w, q, id)
				})
				w := startInside(t, nil, r.URL)
				w.wantResult(t, request(manifest.ListFeatures, `{}`), c.want)
				w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
			})
		}
	}
}

// TestFailingListsOfFeatures: an error of one list leaves the others, and the last list stays.
func TestFailingListsOfFeatures(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			failure := says(200, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"x"}}`)
			r := newFeatures(t, old)
			r.hostile("resources/templates/list", "", failure)
			w := startInside(t, nil, r.URL)
			all := `{"prompts":[{"name":"greet","description":"greets","arguments":[{"name":"who","required":true}],` +
				`"title":"Greeting"}],` + listed
			w.wantResult(t, request(manifest.ListFeatures, `{}`), all)
			r.hostile("prompts/list", "", failure)
			w.wantResult(t, request(manifest.ListFeatures, `{}`), all)
		})
	}
}
