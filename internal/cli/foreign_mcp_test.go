package cli

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// sendWrongMCP sends what is not a message of MCP.
func (g *erring) sendWrongMCP(t *testing.T) {
	t.Helper()
	secret := strconv.Quote(g.planted["arguments"])
	bodies := g.wrongJSON(docpb.File_selu_capability_capability_proto.Messages().ByName("HealthRequest"), 0)
	for i, value := range []string{secret, g.number + ".5", "{\"x\":[" + secret + "]}"} {
		for _, member := range []string{"jsonrpc", "id", "method", "params", "result", "error", "x"} {
			bodies[fmt.Sprint(member, i)] = fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{},%q:%s}`, member, value)
		}
		for _, method := range []string{"initialize", "ping", "tools/call", "tools/list", "server/discover",
			"subscriptions/listen", "tasks/get", "tasks/result", "tasks/cancel", "tasks/update", "tasks/list",
			"resources/read", "prompts/get", "completion/complete", "logging/setLevel", "notifications/cancelled",
			"notifications/progress", "notifications/initialized", "notifications/roots/list_changed",
			g.planted["arguments"]} {
			for _, id := range []string{`"id":1,`, ""} {
				for _, param := range []string{"name", "arguments", "_meta", "cursor", "protocolVersion",
					"capabilities", "clientInfo", "taskId", "requestId", "progressToken", "level", "uri", "task",
					"inputResponses", "notifications"} {
					of := `"name":"docs__echo",`
					if param == "name" {
						if value == secret {
							continue // a name, which errors may contain
						}
						of = ""
					}
					bodies[fmt.Sprint(method, id, param, i)] = fmt.Sprintf(
						`{"jsonrpc":"2.0",%s"method":%q,"params":{%s%q:%s}}`, id, method, of, param, value)
				}
			}
		}
		for _, param := range []string{"progressToken", "io.modelcontextprotocol/protocolVersion",
			"io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities", "traceparent"} {
			bodies[fmt.Sprint("meta", param, i)] = fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"docs__echo","arguments":{},"_meta":{%q:%s}}}`, param, value)
		}
		bodies[fmt.Sprint("result", i)] = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"action":%s,"content":%s}}`,
			value, value)
		bodies[fmt.Sprint("error", i)] = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%s,"message":%s}}`, value,
			value)
		bodies[fmt.Sprint("batch", i)] = fmt.Sprintf(
			`[%s,{"jsonrpc":"2.0","id":1,"method":%s},{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}]`,
			value, value, value)
	}
	for what, body := range bodies {
		for _, version := range []string{"", "2025-03-26", "2025-11-25", "2026-07-28"} {
			for _, accept := range []string{"application/json",
				"text/event-stream, application/json"}[(len(what)+len(version))%2:][:1] {
				a := answer{what: "MCP " + version + " " + accept + ", " + what}
				header := []string{"accept", accept}
				if version != "" {
					header = append(header, "mcp-protocol-version", version)
				}
				if isSkipped(what+version) || strings.Contains(body, "subscriptions/listen") {
					continue // it does not end
				}
				g.post(t, &a, "/mcp", "application/json", body, header...)
				g.judgeRPC(t, a)
			}
		}
	}
}
