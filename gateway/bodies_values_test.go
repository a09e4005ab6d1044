package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestValuesOfABodyAreBounded: a short body with very many values, which would take many times its size in memory, is
// rejected by every front door that would decode it. The arguments of a tool are not decoded.
func TestValuesOfABodyAreBounded(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	many := "[0" + strings.Repeat(",0", 1<<18) + "]"
	rpc := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	for name, test := range map[string]struct{ path, body, want string }{
		"JSON":           {"/v1/approvals/abc/approve", `{"comment":` + many + `}`, "BODY_TOO_LARGE"},
		"Connect":        {invokePath, `{"x":` + many + `}`, "MESSAGE_TOO_LARGE"},
		"MCP":            {"/mcp", rpc("tools/list", `{"_meta":{"x":`+many+`}}`), "BODY_TOO_LARGE"},
		"MCP, of a call": {"/mcp", rpc("tools/call", `{"name":"caps__echo","x":`+many+`}`), "BODY_TOO_LARGE"},
		"MCP, a batch":   {"/mcp", many, "1 to 32 messages"},
		"JSON, arguments": {"/v1/capabilities/caps/invoke", `{"tool_name":"echo","args":{"x":` + many + `}}`,
			"[0,0,0"},
		"MCP, arguments": {"/mcp", rpc("tools/call", `{"name":"caps__echo","arguments":{"x":`+many+`}}`), "[0,0,0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, text := clienttest.Send(t, f.gateway.HTTP1(t), http.MethodPost, f.gateway.URL(test.path), test.body,
				"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
			if !strings.Contains(text, test.want) {
				t.Errorf("%s %.300s, want %s", resp.Status, text, test.want)
			}
		})
	}
}

// TestValuesOfABodyAreCharged: the memory that the values of a body become is charged to its tenant.
func TestValuesOfABodyAreCharged(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) { o.MaxBodies = 4 * mib })
	values := "[0" + strings.Repeat(",0", 1<<16) + "]"
	for path, body := range map[string]string{
		"/v1/approvals/abc/approve": `{"comment":` + values + `}`,
		"/mcp": `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":` + values +
			`}}}`,
	} {
		resp, text := clienttest.Send(t, f.gateway.HTTP1(t), http.MethodPost, f.gateway.URL(path), body,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		if !strings.Contains(text, "OVERLOADED") {
			t.Errorf("%s: %s %.300s", path, resp.Status, text)
		}
	}
	check.Until(t, "nothing to be charged", func() (bool, string) {
		held := f.gateway.Bodies()
		return held == 0, fmt.Sprint(held, " is held")
	})
}
