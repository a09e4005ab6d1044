package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newAskingFeatures serves a prompt and a resource that request a form in one of the eras.
func newAskingFeatures(t *testing.T, old bool) *remote {
	t.Helper()
	r := newRemote(t, old)
	form := &sdk.ElicitParams{Message: "What is your name?", RequestedSchema: map[string]any{"type": "object",
		"properties": map[string]any{"name": map[string]any{"type": "string"}}}}
	const state = "state of the server"
	// name returns the answer, or the request for it.
	name := func(ctx context.Context, s *sdk.ServerSession, in sdk.InputResponseMap, of string) (string,
		sdk.InputRequestMap, error) {
		if old {
			got, err := s.Elicit(ctx, form)
			if err != nil {
				return "", nil, err
			}
			return fmt.Sprint(got.Content["name"]), nil, nil
		}
		if in["n"] == nil || of != state {
			return "", sdk.InputRequestMap{"n": form}, nil
		}
		return fmt.Sprint(in["n"].(*sdk.ElicitResult).Content["name"]), nil, nil
	}
	r.mcp.AddPrompt(&sdk.Prompt{Name: "asks"}, func(ctx context.Context, q *sdk.GetPromptRequest) (*sdk.GetPromptResult,
		error) {
		text, ask, err := name(ctx, q.Session, q.Params.InputResponses, q.Params.RequestState)
		if err != nil || ask != nil {
			return &sdk.GetPromptResult{InputRequests: ask, RequestState: state}, err
		}
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user",
			Content: &sdk.TextContent{Text: text}}}}, nil
	})
	r.mcp.AddResource(&sdk.Resource{Name: "asks", URI: "asks://a"}, func(ctx context.Context,
		q *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		text, ask, err := name(ctx, q.Session, q.Params.InputResponses, q.Params.RequestState)
		if err != nil || ask != nil {
			return &sdk.ReadResourceResult{InputRequests: ask, RequestState: state}, err
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "asks://a", Text: text}}}, nil
	})
	return r
}

// TestQuestionsOfFeaturesPass: prompts and resources of a server may ask like tools, in each combination of revisions
// but that of an old server and a new client. The message names the prompt or the resource. A client that declares
// nothing gets an error.
func TestQuestionsOfFeaturesPass(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*sdk.ClientSession) (string, error){
		"prompts/asks": func(s *sdk.ClientSession) (string, error) {
			got, err := s.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: id + "__asks"})
			if err != nil {
				return "", err
			}
			return got.Messages[0].Content.(*sdk.TextContent).Text, nil
		},
		"resources/read": func(s *sdk.ClientSession) (string, error) {
			got, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "asks://a"})
			if err != nil {
				return "", err
			}
			return got.Contents[0].Text, nil
		},
	}
	for server, old := range eras {
		for _, client := range []string{"2026-07-28", "2025-11-25"} {
			for name, call := range calls {
				t.Run(name+" "+server+" "+client, func(t *testing.T) {
					t.Parallel()
					w := startAsking(t, newAskingFeatures(t, old), []string{"forms"})
					var message string
					s := w.connect(t, answering(func(m string) { message = m }), client)
					text, err := call(s)
					switch {
					case old && client == "2026-07-28":
						if err == nil || !strings.Contains(err.Error(), "does not support") {
							t.Errorf("%q, %v", text, err)
						}
						return
					case err != nil || text != "Ann":
						t.Errorf("%q, %v", text, err)
					}
					if !strings.HasPrefix(message, `Message of the tool "`+name+`" of "`+id+`"`) {
						t.Errorf("the form has the message %q", message)
					}
					silent := w.connect(t, sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil), client)
					if text, err := call(silent); err == nil {
						t.Errorf("a client that answers nothing gets %q", text)
					}
				})
			}
		}
	}
}

// TestMissingCapabilities: a server's error that its client must declare a capability reaches a client that can declare
// it, in the form of the client's revision. Other required capabilities are an error of the server.
func TestMissingCapabilities(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct{ data, required string }{
		"sampling": {`{"requiredCapabilities":{"sampling":{}}}`, `{"sampling":{}}`},
		"a form":   {`{"requiredCapabilities":{"elicitation":{}}}`, `{"elicitation":{"form":{}}}`},
		"forms and sampling": {`{"requiredCapabilities":{"elicitation":{"form":{}},"sampling":{}}}`,
			`{"elicitation":{"form":{}},"sampling":{}}`},
		"not allowed":           {`{"requiredCapabilities":{"elicitation":{"url":{}}}}`, ""},
		"an extension":          {`{"requiredCapabilities":{"extensions":{"a/b":{}}}}`, ""},
		"tools in sampling":     {`{"requiredCapabilities":{"sampling":{"tools":{}}}}`, ""},
		"another mode":          {`{"requiredCapabilities":{"elicitation":{"voice":{}}}}`, ""},
		"a list":                {`{"requiredCapabilities":["sampling"]}`, ""},
		"a number":              {`{"requiredCapabilities":{"sampling":7}}`, ""},
		"nothing":               {`{}`, ""},
		"none":                  {`{"requiredCapabilities":{}}`, ""},
		"a capability too many": {`{"requiredCapabilities":{"sampling":{},"` + long + `":{}}}`, ""},
	} {
		for server, old := range eras {
			t.Run(name+" "+server, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, old)
				r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
					func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
						return nil, &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities,
							Message: "declare it", Data: json.RawMessage(c.data)}
					})
				w := startAsking(t, r, []string{"forms", "sampling"})
				for _, client := range []string{"2026-07-28", "2025-11-25"} {
					s := w.connect(t, sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil), client)
					_, err := s.CallTool(within(t), &sdk.CallToolParams{Name: id + "__asks"})
					var got *jsonrpc.Error
					if !errors.As(err, &got) {
						t.Fatalf("%s: %v", client, err)
					}
					var data struct {
						Required json.RawMessage `json:"requiredCapabilities"`
						Reason   string          `json:"reason"`
					}
					_ = json.Unmarshal(got.Data, &data) // some errors have no data
					passes := c.required != "" && client == "2026-07-28"
					if passes != (got.Code == sdk.CodeMissingRequiredClientCapabilities) ||
						passes && string(data.Required) != c.required || !passes && data.Required != nil {
						t.Errorf("%s: %d %s, %.300s", client, got.Code, got.Message, got.Data)
					}
					if c.required != "" && data.Reason != "MCP_CAPABILITY_MISSING" || len(got.Data) > 1<<10 {
						t.Errorf("%s: the reason is %s", client, data.Reason)
					}
				}
			})
		}
	}
}
