//nolint:staticcheck // sampling and roots are deprecated, and still a part of the protocol
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// featureRequest is a request of a client to real servers. Its result contains want, and that of a client of
// 2026-07-28 contains modern, unless it is empty. It makes no request that is unasked.
type featureRequest struct{ method, params, want, modern string }

// unasked marks a call whose server asks a client that declares nothing, and then waits.
const unasked = "unasked"

// inSession marks a request whose server notifies the session of a call alone. A client of 2026-07-28 has none.
const inSession = "in a session"

// featureRequests lists the requests of each client. The servers are those of TestMCPRealServers.
func featureRequests(file string) []featureRequest {
	return []featureRequest{
		{"tools/list", `{}`, `"everything__trigger-elicitation-request"`, ""},
		{"tools/list", `{}`, `"everything__get-roots-list"`, ""},
		{"tools/list", `{}`, `"` + forgeTool(forgeTools-1) + `"`, ""},
		{"resources/list", `{}`, `"demo://resource/static/document/features.md"`, ""},
		{"resources/list", `{}`, `"python://greeting"`, ""},
		{"resources/templates/list", `{}`, `"demo://resource/dynamic/text/{resourceId}"`, ""},
		{"resources/templates/list", `{}`, `"fast://people/{name}"`, ""},
		{"prompts/list", `{}`, `"everything__resource-prompt"`, ""},
		{"prompts/list", `{}`, `"fastmcp__review"`, ""},
		{"resources/read", `{"uri":"demo://resource/static/document/features.md"}`, "# Everything Server", ""},
		{"resources/read", `{"uri":"demo://resource/dynamic/text/7"}`, "Resource 7: This is a plaintext", ""},
		{"resources/read", `{"uri":"demo://resource/dynamic/blob/7"}`, `"blob":`, ""},
		{"resources/read", `{"uri":"python://greeting"}`, "a text of Python", ""},
		{"resources/read", `{"uri":"python://people/ann"}`, "ann of Python", ""},
		{"resources/read", `{"uri":"python://picture"}`, `"aW1n"`, ""},
		{"resources/read", `{"uri":"fast://greeting"}`, "a text of FastMCP", ""},
		{"resources/read", `{"uri":"fast://people/ann"}`, "ann of FastMCP", ""},
		{"resources/read", `{"uri":"fast://picture"}`, `"aW1n"`, ""},
		{"resources/read", `{"uri":"none://such"}`, "there is no resource", ""},
		{"prompts/get", `{"name":"everything__args-prompt","arguments":{"city":"Berlin"}}`,
			"What's weather in Berlin?", ""},
		{"prompts/get", `{"name":"everything__resource-prompt","arguments":{"resourceType":"Text","resourceId":"7"}}`,
			`"uri":"demo://resource/dynamic/text/7"`, ""},
		{"prompts/get", `{"name":"python__review","arguments":{"code":"x"}}`, "Review of Python: x", ""},
		{"prompts/get", `{"name":"fastmcp__review","arguments":{"code":"x"}}`, "Review of FastMCP: x", ""},
		{"prompts/get", `{"name":"python__none"}`, "there is no prompt", ""},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"everything__completable-prompt"},` +
			`"argument":{"name":"department","value":"Eng"}}`, `"Engineering"`, ""},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"everything__completable-prompt"},` +
			`"argument":{"name":"name","value":"A"},"context":{"arguments":{"department":"Engineering"}}}`,
			`"Alice"`, ""},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/text/{resourceId}"},` +
			`"argument":{"name":"resourceId","value":"7"}}`, `"7"`, ""},
		{"tools/call", `{"name":"files__read_text_file","arguments":{"path":"` + file + `"}}`, "a text", ""},
		{"tools/call", `{"name":"` + forgeTool(0) + `","arguments":{"owner":"ann","repo":"x"}}`, `"owner":"ann"`, ""},
		{"tools/call", `{"name":"everything__trigger-elicitation-request","arguments":{}}`, "- Name: Ann",
			"trigger-elicitation-request not found"},
		{"tools/call", `{"name":"everything__trigger-sampling-request","arguments":{"prompt":"x"}}`, "hello",
			"trigger-sampling-request not found"},
		{"tools/call", `{"name":"everything__simulate-research-query","arguments":{"topic":"python","ambiguous":true}}`,
			"Research Report: python (snake)", "Research Report: python"}, // a task
		{"tools/call", `{"name":"python__greet","arguments":{}}`, "Hello, Ann!", ""},
		{"tools/call", `{"name":"python__tell","arguments":{}}`, "The model says hello.", ""},
		{"tools/call", `{"name":"fastmcp__greet","arguments":{}}`, "Hello, Ann!", "not support"},
		{"tools/call", `{"name":"fastmcp__tell","arguments":{}}`, "The model says hello.", "not support"},
		{"tools/call", `{"name":"fastmcp__tell_aside","arguments":{}}`, "The model says hello aside.", unasked},
		{"tools/call", `{"name":"everything__get-roots-list","arguments":{}}`, "file:///home/ann",
			"get-roots-list not found"},
		{updatesMethod, `{"uri":"python://greeting","tool":"python__touch"}`, `"python://greeting"`, ""},
		{updatesMethod, `{"uri":"fast://greeting","tool":"fastmcp__touch"}`, `"fast://greeting"`, ""},
		{updatesMethod, `{"uri":"demo://resource/dynamic/text/7","tool":"everything__toggle-subscriber-updates"}`,
			`"demo://resource/dynamic/text/7"`, inSession},
	}
}

// updatesMethod stands for several requests. The client subscribes to a resource. In a session it waits for the update
// that follows the start of its stream. Then it calls a tool that changes the resource, and returns the URI of the next
// update.
const updatesMethod = "updates"

// featureClient makes requests at /mcp, and returns their results; nil means that it did not make a request.
type featureClient struct {
	modern bool // of revision 2026-07-28
	run    func(t *testing.T, url string, all []featureRequest) []json.RawMessage
}

// clientsOfRealServers: the SDKs for TypeScript, Python and Go, in old and new revisions, and the Inspector's CLI list
// and use the resources, prompts and tools of real servers, and answer their questions.
func clientsOfRealServers(t *testing.T, public, file string) {
	t.Helper()
	node := installed(t, "node", "node_modules", nodeBinary(), "bin", "node")
	python := installed(t, "venv", "bin", "python")
	all := featureRequests(file)
	for name, c := range map[string]featureClient{
		"TypeScript":        {true, featureScript(node, "features.mjs", "2026-07-28")},
		"TypeScript legacy": {false, featureScript(node, "features.mjs", "legacy")},
		"TypeScript 1":      {false, featureScript(node, "features.mjs", "sdk")},
		"Python":            {true, featureScript(python, "features.py", "2026-07-28")},
		"Python legacy":     {false, featureScript(python, "features.py", "legacy")},
		"Go":                {true, featuresInGo("2026-07-28")},
		"Go legacy":         {false, featuresInGo("2025-11-25")},
		"Inspector":         {false, featuresOfInspector(node)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := all
			if c.modern {
				all = slices.DeleteFunc(slices.Clone(all), func(r featureRequest) bool {
					return r.modern == unasked || r.modern == inSession
				})
			}
			results := c.run(t, "http://"+public+"/mcp", all)
			if len(results) != len(all) {
				t.Fatalf("%d results of %d requests: %s", len(results), len(all), results)
			}
			for i, r := range all {
				want := r.want
				if c.modern && r.modern != "" {
					want = r.modern
				}
				if got := string(results[i]); got != "" && !strings.Contains(got, want) {
					t.Errorf("%s %s: %.2000s\nwant %s", r.method, r.params, got, want)
				}
			}
			if n := strings.Count(string(results[0]), `"forge__`); n != forgeTools {
				t.Errorf("the client lists %d tools of the large server", n)
			}
		})
	}
}

// featureScript returns a client in testdata/mcp.
func featureScript(program, script, mode string) func(*testing.T, string, []featureRequest) []json.RawMessage {
	return func(t *testing.T, url string, all []featureRequest) (results []json.RawMessage) {
		t.Helper()
		dir := beside(t) // where node finds its packages
		text, err := os.ReadFile(filepath.Join("testdata", "mcp", script))
		check.Must(t, err)
		put(t, dir, script, string(text))
		pairs := make([][2]any, len(all))
		for i, r := range all {
			pairs[i] = [2]any{r.method, json.RawMessage(r.params)}
		}
		requests, err := json.Marshal(pairs)
		check.Must(t, err)
		check.Must(t, json.Unmarshal([]byte(tells(t, dir, program, script, url, mode, string(requests))), &results))
		return results
	}
}

// featuresOfInspector returns the CLI of the Inspector, which finds its package.json from its working directory. Each
// process makes one request: the first of each method that the CLI has.
func featuresOfInspector(node string) func(*testing.T, string, []featureRequest) []json.RawMessage {
	return func(t *testing.T, url string, all []featureRequest) []json.RawMessage {
		t.Helper()
		cli := installed(t, "node", "node_modules", "@modelcontextprotocol", "inspector-cli", "build", "index.js")
		results, seen := make([]json.RawMessage, len(all)), map[string]bool{"completion/complete": true,
			updatesMethod: true}
		for i, r := range all {
			if seen[r.method] {
				continue
			}
			seen[r.method] = true
			var p struct {
				URI, Name string
				Arguments map[string]any
			}
			check.Must(t, json.Unmarshal([]byte(r.params), &p))
			args := []string{cli, url, "--transport", "http", "--method", r.method}
			for option, value := range map[string]string{"--uri": p.URI, "--tool-name": p.Name,
				"--prompt-name": p.Name} {
				if value != "" {
					args = append(args, option, value)
				}
			}
			option := map[string]string{"tools/call": "--tool-arg", "prompts/get": "--prompt-args"}[r.method]
			for name, value := range p.Arguments {
				args = append(args, option, fmt.Sprint(name, "=", value))
			}
			var compact bytes.Buffer
			check.Must(t, json.Compact(&compact, []byte(tells(t, filepath.Dir(cli), node, args...))))
			results[i] = compact.Bytes()
		}
		return results
	}
}

// featuresInGo returns a client of the Go SDK.
func featuresInGo(revision string) func(*testing.T, string, []featureRequest) []json.RawMessage {
	return func(t *testing.T, url string, all []featureRequest) (results []json.RawMessage) {
		t.Helper()
		updated := make(chan string, 1000)
		c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, q *sdk.ResourceUpdatedNotificationRequest) {
				updated <- q.Params.URI
			},
			ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann",
					"interpretation": "snake"}}, nil
			},
			CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
				return &sdk.CreateMessageResult{Role: "assistant", Model: "m",
					Content: &sdk.TextContent{Text: "hello"}}, nil
			},
		})
		c.AddRoots(&sdk.Root{URI: "file:///home/ann", Name: "ann"})
		s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, MaxRetries: -1,
			HTTPClient: &http.Client{Transport: clienttest.Bound(&http.Transport{DisableKeepAlives: true})}},
			&sdk.ClientSessionOptions{ProtocolVersion: revision})
		check.Must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		for _, r := range all {
			result, err := any(nil), error(nil)
			if r.method == updatesMethod {
				result, err = updatesInGo(t.Context(), s, r.params, updated, revision == "2026-07-28")
			} else {
				result, err = featureInGo(t.Context(), s, r)
			}
			if err != nil {
				result = map[string]any{"error": fmt.Sprintf("%v %#v", err, err)}
			}
			text, err := json.Marshal(result)
			check.Must(t, err)
			results = append(results, text)
		}
		return results
	}
}

// updatesInGo is the request updatesMethod.
func updatesInGo(ctx context.Context, s *sdk.ClientSession, params string, updated <-chan string, modern bool) (any,
	error) {
	var p struct{ URI, Tool string }
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		return nil, err
	}
	next := func() error {
		for {
			select {
			case uri := <-updated:
				if uri == p.URI {
					return nil
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if err := s.Subscribe(ctx, &sdk.SubscribeParams{URI: p.URI}); err != nil {
		return nil, err
	}
	if !modern {
		if err := next(); err != nil {
			return nil, err
		}
	}
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: p.Tool}); err != nil {
		return nil, err
	}
	return p.URI, next()
}

// featureInGo makes one request. The result of a list has the names or URIs of all pages.
func featureInGo(ctx context.Context, s *sdk.ClientSession, r featureRequest) (any, error) {
	var names []string
	switch r.method {
	case "tools/list":
		for of, err := range s.Tools(ctx, nil) {
			if err != nil {
				return nil, err
			}
			names = append(names, of.Name)
		}
	case "prompts/list":
		for of, err := range s.Prompts(ctx, nil) {
			if err != nil {
				return nil, err
			}
			names = append(names, of.Name)
		}
	case "resources/list":
		for of, err := range s.Resources(ctx, nil) {
			if err != nil {
				return nil, err
			}
			names = append(names, of.URI)
		}
	case "resources/templates/list":
		for of, err := range s.ResourceTemplates(ctx, nil) {
			if err != nil {
				return nil, err
			}
			names = append(names, of.URITemplate)
		}
	case "tools/call":
		return send(ctx, r.params, s.CallTool)
	case "prompts/get":
		return send(ctx, r.params, s.GetPrompt)
	case "resources/read":
		return send(ctx, r.params, s.ReadResource)
	case "completion/complete":
		return send(ctx, r.params, s.Complete)
	}
	return names, nil
}

// send makes a request with params in JSON.
func send[P, R any](ctx context.Context, params string, request func(context.Context, *P) (R, error)) (any, error) {
	p := new(P)
	if err := json.Unmarshal([]byte(params), p); err != nil {
		return nil, err
	}
	return request(ctx, p)
}
