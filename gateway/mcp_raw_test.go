package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// postMCP sends a body to the MCP front door.
func (f *mcpFront) postMCP(t *testing.T, body string) (status int, text string) {
	t.Helper()
	resp, all := clienttest.Send(t, clienttest.HTTP, http.MethodPost, f.gateway.URL(mcp.Path), body, "Content-Type",
		"application/json", "Accept", "application/json, text/event-stream")
	return resp.StatusCode, all
}

// TestMCPTypesOfMembers: a member of the wrong type is an error of its message, never of the gateway.
func TestMCPTypesOfMembers(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	for _, other := range []string{`[]`, `{}`, `[1,[2,{"a":"b"}]]`, `{"a":{"b":[]}}`, `null`, `true`, `1.5`} {
		for what, body := range map[string]string{
			"id":      `{"jsonrpc":"2.0","id":` + other + `,"method":"ping"}`,
			"method":  `{"jsonrpc":"2.0","id":1,"method":` + other + `}`,
			"name":    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":` + other + `}}`,
			"jsonrpc": `{"jsonrpc":` + other + `,"id":1,"method":"ping"}`,
			"requestId": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + other +
				`}}`,
			"_meta":        `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":` + other + `}}`,
			"capabilities": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":` + other + `}}`,
			"result":       `{"jsonrpc":"2.0","id":1,"result":` + other + `}`,
		} {
			status, text := f.postMCP(t, body)
			if status >= http.StatusInternalServerError || status == 0 {
				t.Errorf("%s %s: %d %s", what, other, status, text)
			}
		}
	}
	if text := f.gateway.Log.String(); strings.Contains(text, "panic") {
		t.Errorf("the log has a panic")
	}
}

// TestMCPIDsAreReturnedUnchanged: ids come back as sent, also in batches, however many digits they have. A
// number that only some decoders take for an integer is rejected.
func TestMCPIDsAreReturnedUnchanged(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	for _, method := range []string{`"ping"`, `"tools/list"`,
		`"tools/call","params":{"name":"caps__` + gatewaytest.Echo + `","arguments":{}}`, `"no/such"`} {
		for _, id := range []string{`0`, `1`, `-7`, `1234567890123456`, `9007199254740991`, `-9007199254740991`, `"1"`,
			`9007199254740993`, `-9007199254740993`, `9223372036854775808`, `123456789012345678901`,
			strings.Repeat("9", 256), `"9007199254740993"`, `"1e3"`, `"ä\n"`} {
			one := `{"jsonrpc":"2.0","id":` + id + `,"method":` + method + `}`
			for _, body := range []string{one, "[" + one + "," + one + "]"} {
				status, text := f.postMCP(t, body)
				var batch []struct{ ID json.RawMessage }
				if !strings.HasPrefix(text, "[") {
					text = "[" + text + "]"
				}
				if err := json.Unmarshal([]byte(text), &batch); err != nil {
					t.Errorf("%s: %d %s", body, status, text)
					continue
				}
				for _, response := range batch {
					if string(response.ID) != id {
						t.Errorf("%s: id %s", body, response.ID)
					}
				}
			}
		}
		for _, id := range []string{`1.0`, `1.5`, `1e3`, `1E3`, `-1e-3`, `null`, `true`, strings.Repeat("9", 257)} {
			status, text := f.postMCP(t, `{"jsonrpc":"2.0","id":`+id+`,"method":`+method+`}`)
			if status != http.StatusBadRequest || !strings.Contains(text, "INVALID_BODY") {
				t.Errorf("id %s: %d %s", id, status, text)
			}
		}
	}
}

// TestMCPCallToolReadsNamesExactly: the arguments of call_tool and search_tools are matched with their exact
// case.
func TestMCPCallToolReadsNamesExactly(t *testing.T) {
	t.Parallel()
	f := startMCP(t, func(o *gatewaytest.Options) { o.MCP.Settings.Search = []string{"*"} })
	call := func(name, arguments string) (int, string) {
		return f.postMCP(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+
			arguments+`}}`)
	}
	const good = "caps__" + gatewaytest.Echo
	if status, text := call("call_tool", `{"name":"`+good+`","arguments":{"a":1}}`); status != http.StatusOK ||
		!strings.Contains(text, `{\"a\":1}`) {
		t.Errorf("got %d %s", status, text)
	}
	for _, arguments := range []string{`{"Name":"` + good + `"}`, `{"name":"` + good + `","NAME":"caps__fail"}`,
		`{"name":"` + good + `","Arguments":{}}`, `{"name":["` + good + `"]}`, `{"name":"` + good +
			`","arguments":[]}`} {
		if _, text := call("call_tool", arguments); !strings.Contains(text, "INVALID_BODY") {
			t.Errorf("%s: %s", arguments, text)
		}
	}
	for _, arguments := range []string{`{"QUERY":"echo"}`, `{"query":"echo","Limit":1}`,
		`{"query":"echo","limit":"1"}`} {
		if _, text := call("search_tools", arguments); !strings.Contains(text, "INVALID_BODY") {
			t.Errorf("%s: %s", arguments, text)
		}
	}
}
