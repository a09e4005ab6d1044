package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// forgeTools is the number of tools of forgeServer, which is that of github-mcp-server.
const forgeTools = 117

// forgeTool returns the name of a tool of forgeServer at the gateway.
func forgeTool(i int) string {
	verbs := []string{"list", "get", "create", "update", "delete", "search", "close", "reopen", "assign", "label",
		"comment_on", "lock", "export"}
	nouns := []string{"branches", "commits", "issues", "merges", "milestones", "releases", "reviews", "runs", "wikis"}
	return "forge__" + verbs[i%len(verbs)] + "_" + nouns[i/len(verbs)]
}

// forgeServer is a server with as many tools as github-mcp-server, and schemas of their size. The names and schemas
// are made up. A tool responds with its arguments.
func forgeServer(t *testing.T) (url string) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "forge", Version: "1"}, nil)
	for i := range forgeTools {
		name := forgeTool(i)[len("forge__"):]
		server.AddTool(&sdk.Tool{Name: name, Title: "Forge: " + name, Description: "Works on " + name +
			" of a repository. It needs the permission to read it, and returns at most a page of results.",
			InputSchema: json.RawMessage(fmt.Sprintf(forgeSchema, name)),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: i%2 == 0}},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{StructuredContent: r.Params.Arguments,
					Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}}}, nil
			})
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

const forgeSchema = `{"type":"object","title":%q,"required":["owner","repo"],"properties":{
	"owner":{"type":"string","description":"Owner of the repository","minLength":1},
	"repo":{"type":"string","description":"Name of the repository, without its owner"},
	"number":{"type":"integer","minimum":1,"description":"Number within the repository"},
	"state":{"type":"string","enum":["open","closed","all"],"default":"open"},
	"labels":{"type":"array","maxItems":100,"items":{"type":"string"},"uniqueItems":true},
	"since":{"type":"string","format":"date-time","description":"Only what changed after this time"},
	"sort":{"type":"string","enum":["created","updated","comments"]},
	"order":{"type":"string","enum":["asc","desc"]},
	"page":{"type":"integer","minimum":1,"default":1},
	"per_page":{"type":"integer","minimum":1,"maximum":100,"default":30},
	"fields":{"type":"array","items":{"$ref":"#/$defs/field"}},
	"target":{"oneOf":[{"type":"string"},{"type":"object","properties":{"ref":{"type":"string"},
		"sha":{"type":"string","pattern":"^[0-9a-f]{40}$"}},"additionalProperties":false}]}},
	"$defs":{"field":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},
		"value":{"type":["string","number","boolean","null"]}}}}}`
