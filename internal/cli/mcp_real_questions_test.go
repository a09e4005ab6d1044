//nolint:staticcheck // sampling and roots are deprecated, and still scenarios of the suite
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools of the suite that ask their client: on the stream of the call in revisions with sessions, and by their
// result since 2026-07-28.

const (
	formDefaults = `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},
		"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},"status":{"type":"string",
		"enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`
	formEnums = `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2",
			"title":"Second Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],
			"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2",
			"title":"Second Choice"}]}}}}`
)

func texts(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// formOf returns a form with one field of a type.
func formOf(message, field, kind string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: message, RequestedSchema: map[string]any{"type": "object",
		"properties": map[string]any{field: map[string]any{"type": kind}}, "required": []string{field}}}
}

func sampleOf(text string) *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{MaxTokens: 100,
		Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}
}

// addStreamQuestions adds those of revisions with sessions.
func addStreamQuestions(server *sdk.Server) {
	elicit := func(name, schema string) {
		addTool(server, name, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			got, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Please answer.",
				RequestedSchema: json.RawMessage(schema)})
			if err != nil {
				return nil, err
			}
			return texts("Elicitation completed: action=%s, content=%v", got.Action, got.Content), nil
		})
	}
	elicit("test_elicitation", `{"type":"object","properties":{"username":{"type":"string"},"email":{"type":"string"}},
		"required":["username","email"]}`)
	elicit("test_elicitation_sep1034_defaults", formDefaults)
	elicit("test_elicitation_sep1330_enums", formEnums)
	addTool(server, "test_sampling", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		got, err := r.Session.CreateMessage(ctx, sampleOf("Test prompt"))
		if err != nil {
			return nil, err
		}
		return texts("LLM response: %s", got.Content.(*sdk.TextContent).Text), nil
	})
}

// round is a result that requests input.
func round(state string, requests sdk.InputRequestMap) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: requests, RequestState: state}
}

// roundsServer is a server of 2026-07-28 with the tools of that revision.
func roundsServer(t *testing.T) (url string) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "rounds", Version: "1"}, nil)
	addResultQuestions(server)
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

func addResultQuestions(server *sdk.Server) {
	const prefix = "test_input_required_result_"
	name := formOf("What is your name?", "name", "string")
	confirm := sdk.InputRequestMap{"confirm": formOf("Please confirm", "ok", "boolean")}
	one := func(tool, key string, ask sdk.InputRequest) {
		addTool(server, prefix+tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if r.Params.InputResponses[key] == nil {
				return round("", sdk.InputRequestMap{key: ask}), nil
			}
			return texts("got %s", key), nil
		})
	}
	one("elicitation", "user_name", name)
	one("sampling", "capital_question", sampleOf("What is the capital of France?"))
	one("list_roots", "client_roots", &sdk.ListRootsParams{})
	for _, tool := range []string{"request_state", "tampered_state"} {
		addTool(server, prefix+tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			switch r.Params.RequestState {
			case "":
				return round("the state", confirm), nil
			case "the state":
				return texts("state-ok"), nil
			}
			return nil, errors.New("the state was changed")
		})
	}
	addTool(server, prefix+"multiple_inputs", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult,
		error) {
		if len(r.Params.InputResponses) < 3 || r.Params.RequestState != "all" {
			return round("all", sdk.InputRequestMap{"user_name": name, "greeting": sampleOf("Generate a greeting"),
				"client_roots": &sdk.ListRootsParams{}}), nil
		}
		return texts("all answered"), nil
	})
	addTool(server, prefix+"multi_round", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		switch r.Params.RequestState {
		case "":
			return round("first", sdk.InputRequestMap{"step1": name}), nil
		case "first":
			return round("second", sdk.InputRequestMap{"step2": formOf("What is your favorite color?", "color",
				"string")}), nil
		}
		return texts("done"), nil
	})
	addTool(server, prefix+"capabilities", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult,
		error) {
		requests := sdk.InputRequestMap{}
		text, _ := json.Marshal(r.Params.Meta[sdk.MetaKeyClientCapabilities])
		var declared map[string]any
		_ = json.Unmarshal(text, &declared)
		if declared["elicitation"] != nil {
			requests["form"] = name
		}
		if declared["sampling"] != nil {
			requests["sample"] = sampleOf("Hello")
		}
		return round("", requests), nil
	})
}
