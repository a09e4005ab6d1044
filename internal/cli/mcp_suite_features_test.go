package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addSuitePrompts adds the prompts that the suite gets.
func addSuitePrompts(server *sdk.Server) {
	add := func(name string, content func(args map[string]string) []sdk.Content, args ...string) {
		p := &sdk.Prompt{Name: name, Description: "of the suite"}
		for _, arg := range args {
			p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: arg, Required: true})
		}
		server.AddPrompt(p, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			result := &sdk.GetPromptResult{}
			for _, c := range content(r.Params.Arguments) {
				result.Messages = append(result.Messages, &sdk.PromptMessage{Role: "user", Content: c})
			}
			return result, nil
		})
	}
	add("test_simple_prompt", func(map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.TextContent{Text: "This is a simple prompt for testing."}}
	})
	add("test_prompt_with_arguments", func(args map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.TextContent{Text: "Prompt with arguments: arg1='" + args["arg1"] + "', arg2='" +
			args["arg2"] + "'"}}
	}, "arg1", "arg2")
	add("test_prompt_with_embedded_resource", func(args map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: args["resourceUri"],
			MIMEType: "text/plain", Text: "Embedded resource content for testing."}},
			&sdk.TextContent{Text: "Please process the embedded resource above."}}
	}, "resourceUri")
	add("test_prompt_with_image", func(map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.ImageContent{Data: []byte("\x89PNG"), MIMEType: "image/png"},
			&sdk.TextContent{Text: "Please analyze the image above."}}
	})
}

// addSuiteResources adds the resources that the suite reads.
func addSuiteResources(server *sdk.Server) {
	add := func(uri, mime, text string, blob []byte) {
		server.AddResource(&sdk.Resource{Name: uri, URI: uri, MIMEType: mime},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: mime, Text: text,
					Blob: blob}}}, nil
			})
	}
	add("test://static-text", "text/plain", "This is the content of the static text resource.", nil)
	add("test://static-binary", "image/png", "", []byte("\x89PNG"))
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "data", URITemplate: "test://template/{id}/data"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI,
				MIMEType: "application/json", Text: `{"id":"` + id + `","templateTest":true}`}}}, nil
		})
}

// suiteServer runs a server with completions.
func suiteServer(t *testing.T) (server *sdk.Server, url string) {
	t.Helper()
	server = sdk.NewServer(&sdk.Implementation{Name: "suite", Version: "1"}, &sdk.ServerOptions{
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{
				Values: []string{r.Params.Argument.Value + "ing"}}}, nil
		},
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return server, web.URL
}
