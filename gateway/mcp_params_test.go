package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
)

// declareHeaders declares a tool whose schema names headers for arguments.
func (f *mcpFront) declareHeaders(t *testing.T) {
	t.Helper()
	schema, err := toolschema.Compile([]byte(`{"type":"object","properties":{"region":{"type":"string",
		"x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"in":{"type":"object","properties":{
		"dry":{"type":"boolean","x-mcp-header":"Dry"}}},"free":{"type":"string"}}}`))
	check.Must(t, err)
	f.known.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Allow, Manifest: &manifest.Manifest{
		Tools: []manifest.Tool{{Name: gatewaytest.Echo, Description: "Echoes.", Schema: schema}}}}})
}

// TestMCPParamHeaders: a schema may name headers for arguments. A call whose headers differ from them does not
// run.
func TestMCPParamHeaders(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	f.declareHeaders(t)
	const long = "Mcp-Param-"
	ran := 0
	for name, c := range map[string]struct {
		args    string
		headers []string
		ok      bool
	}{
		"none of both": {`{"free":"x"}`, nil, true},
		"the same": {`{"region":"eu","n":7,"in":{"dry":true}}`,
			[]string{"Region", "eu", "N", "7", "Dry", "true"}, true},
		"base64":              {`{"region":"zürich"}`, []string{"Region", "=?base64?esO8cmljaA==?="}, true},
		"no end of base64":    {`{"region":"=?base64?eA=="}`, []string{"Region", "=?base64?eA=="}, true},
		"null":                {`{"region":null}`, nil, true},
		"another number":      {`{"n":7}`, []string{"N", "8"}, false},
		"another text":        {`{"region":"eu"}`, []string{"Region", "us"}, false},
		"in another case":     {`{"region":"eu"}`, []string{"Region", "EU"}, false},
		"no header":           {`{"region":"eu"}`, nil, false},
		"no nested header":    {`{"in":{"dry":false}}`, nil, false},
		"no argument":         {`{}`, []string{"Region", "eu"}, false},
		"a null and a header": {`{"region":null}`, []string{"Region", "null"}, false},
		"no base64":           {`{"region":"x"}`, []string{"Region", "=?base64?!!!?="}, false},
		"no padding":          {`{"region":"x"}`, []string{"Region", "=?base64?eA?="}, false},
		"an object":           {`{"region":{}}`, []string{"Region", "{}"}, false},
		"no number":           {`{"n":7}`, []string{"N", "seven"}, false},
		"an inexact number":   {`{"n":9007199254740993}`, []string{"N", "9007199254740993"}, false},
	} {
		header := []string{"Mcp-Protocol-Version", revisions[0], "Mcp-Method", "tools/call", "Mcp-Name", "caps__echo"}
		for i := 0; i < len(c.headers); i += 2 {
			header = append(header, long+c.headers[i], c.headers[i+1])
		}
		resp, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+newestMeta+
			`,"name":"caps__echo","arguments":`+c.args+`}}`, header...)
		if c.ok {
			ran++
		}
		if c.ok != (resp.StatusCode == 200) || !c.ok && (resp.StatusCode != 400 ||
			!strings.Contains(text, `"code":-32020`)) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
	}
	if n := len(f.capability.Seen()); n != ran {
		t.Errorf("%d calls ran, not %d", n, ran)
	}
	for _, revision := range revisions { // the SDK's client sends them itself, if it knows them
		s := f.session(t, revision, nil)
		if _, err := s.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__echo",
			Arguments: json.RawMessage(`{"region":" é","n":-3,"in":{"dry":true}}`)})
		if err != nil || r.IsError {
			t.Errorf("%s: %+v %v", revision, r, err)
		}
	}
}

// callGrants is a directory of two tenants, of which only acme may call capabilities.
type callGrants struct{ authenticate.Authenticator }

func (callGrants) Lookup(c tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	s := &tenant.Settings{ID: c.Credential}
	if c.Credential == "acme" {
		s.Capabilities, _ = tenant.ParseGrants([]string{"*"})
	}
	return tenant.Identity{Tenant: s.ID, Key: "k", Scopes: tenant.Invoke | tenant.Read, Settings: s}, true, nil
}

// TestMCPParamHeadersOfOthers: headers of a tool's schema reveal nothing to callers that may not call the tool.
func TestMCPParamHeadersOfOthers(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) { o.Authenticator = callGrants{} })
	f.declareHeaders(t)
	for of, want := range map[string]string{"acme": `"code":-32020`, "globex": "TOOL_UNKNOWN"} {
		_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+newestMeta+
			`,"name":"caps__echo","arguments":{"region":"eu"}}}`, "Mcp-Protocol-Version", revisions[0], "Mcp-Method",
			"tools/call",
			"Mcp-Name", "caps__echo", "Mcp-Param-Region", "us", "Authorization", "Bearer "+of)
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", of, text)
		}
	}
}
