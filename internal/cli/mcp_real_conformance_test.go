package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestMCPConformance: the official suite passes at /mcp, in front of an MCP server with the tools that the
// suite calls. testdata/mcp names each failing scenario, and why; a named scenario that passes is an error too.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	node := installed(t, "node", "node_modules", nodeBinary(), "bin", "node")
	suite := installed(t, "node", "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			// A server of its own: one scenario changes the tools, and another compares lists of them.
			var public string
			server := conformanceServer(t, func(tool string) { waitTools(t, public, tool) })
			const asks = "mcp_server: {questions: [elicitation, sampling, roots]}"
			_, public, _ = serve(t, nil, "--config", writeConfig(t, mcpConfig("",
				mcpFleet("suite", server, "name: none", asks),
				mcpFleet("rounds", roundsServer(t), "name: none", asks))))
			waitTools(t, public, "test_input_required_result_capabilities")
			waitTools(t, public, "test_simple_text")
			check.Until(t, "the first list of prompts", func() (bool, string) {
				list := askMCP(t, public, "prompts/list", "{}")
				return strings.Contains(list, "test_simple_prompt"), list
			})
			data, err := filepath.Abs(filepath.Join("testdata", "mcp"))
			check.Must(t, err)
			failures := filepath.Join(data, revision+".yaml")
			cmd := exec.CommandContext(t.Context(), node, "--require", filepath.Join(data, "patient.cjs"), suite,
				"server", "--url", "http://"+public+"/mcp", "--requirements", revision, "--expected-failures", failures)
			cmd.Dir, cmd.Env = t.TempDir(), cleanEnv()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), "tools-call-image") {
				t.Errorf("the suite did not run:\n%s", out)
			}
		})
	}
}

// conformanceServer is an MCP server with those tools of the suite's own one that need nothing of their caller.
// Its tool that changes the tools responds when listed reports that the gateway lists the new one: the next
// scenario compares lists.
func conformanceServer(t *testing.T, listed func(tool string)) (url string) {
	t.Helper()
	server, url := suiteServer(t)
	addSuitePrompts(server)
	addSuiteResources(server)
	png := &sdk.ImageContent{Data: []byte("\x89PNG"), MIMEType: "image/png"}
	resource := func(uri, mime, text string) sdk.Content {
		return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: mime, Text: text}}
	}
	answers := map[string][]sdk.Content{
		"test_simple_text":   {&sdk.TextContent{Text: "This is a simple text response for testing."}},
		"test_image_content": {png},
		"test_audio_content": {&sdk.AudioContent{Data: []byte("RIFF"), MIMEType: "audio/wav"}},
		"test_embedded_resource": {resource("test://embedded-resource", "text/plain",
			"This is an embedded resource content.")},
		"test_multiple_content_types": {&sdk.TextContent{Text: "Multiple content types test:"}, png,
			resource("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)},
	}
	for name, content := range answers {
		addTool(server, name, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: content}, nil
		})
	}
	sdk.AddTool(server, &sdk.Tool{Name: "test_error_handling", Description: "fails"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return nil, nil, errors.New("This tool intentionally returns an error for testing")
		})
	addTool(server, "test_tool_with_progress", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult,
		error) {
		for _, progress := range []float64{0, 50, 100} {
			_ = r.Session.NotifyProgress(ctx,
				&sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: progress,
					Total: 100})
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
	})
	server.AddTool(&sdk.Tool{Name: "json_schema_2020_12_tool", Description: "has a schema of 2020-12",
		InputSchema: json.RawMessage(schema2020)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult,
		error) {
		return &sdk.CallToolResult{}, nil
	})
	server.AddTool(&sdk.Tool{Name: "test_param_header", Description: "has a header for an argument",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string",` +
			`"x-mcp-header":"Region"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	addTool(server, "test_logging_tool", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult,
		error) {
		//nolint:staticcheck // deprecated, and still a scenario of the suite
		_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "not for the caller"})
		return &sdk.CallToolResult{}, nil
	})
	addTool(server, "test_streaming_elicitation",
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			_, err := r.Session.Elicit(ctx,
				&sdk.ElicitParams{Message: "more?", RequestedSchema: map[string]any{"type": "object"}})
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint("asked: ", err)}}}, nil
		})
	addStreamQuestions(server)
	addTool(server, "test_trigger_tool_change", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult,
		error) {
		name := "changed_" + strings.ToLower(rand.Text())
		addTool(server, name, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
		listed(name)
		return &sdk.CallToolResult{}, nil
	})
	return url
}

const schema2020 = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":
	{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
	"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string",
	"enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},"allOf":[{"anyOf":[
	{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":{"const":"phone"}},
	"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
	"additionalProperties":false}`

func addTool(server *sdk.Server, name string, answer sdk.ToolHandler) {
	server.AddTool(&sdk.Tool{Name: name, Description: "of the suite",
		InputSchema: json.RawMessage(`{"type":"object"}`)}, answer)
}
