package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/peers"
)

// mcpGoal is how many times the processor time of a JSON request tools/call may cost capgate.
const mcpGoal = 2

// mcpRoutes are calls of one tool over MCP and JSON.
func mcpRoutes(o options) []jsonRoute {
	work := h2.Work{Kind: h2.ReplyWork, Count: 1, Size: jsonSize}.String()
	frame := len(`{"text":""}`)
	args := `{"text":"` + strings.Repeat("x", jsonSize-frame) + `"}`
	capgate, proxy := peers.CapgateSpec(o.capgate), peers.MCPProxy(work)
	routes := []jsonRoute{
		{title: "**capgate**, JSON: a tool's route", peer: capgate, path: "/v1/capabilities/weather/tools/" + work,
			body: args},
		toolsCall("**capgate**, MCP", capgate, "weather__"+work, args),
		toolsCall("Go SDK proxy, MCP", proxy, work, args),
	}
	if o.before != "" {
		routes = append(routes, toolsCall("capgate before, MCP", peers.Before(capgate, o.before), "weather__"+work,
			args))
	}
	return routes
}

// toolsCall returns a request of revision 2026-07-28.
func toolsCall(title string, peer peers.Spec, tool, args string) jsonRoute {
	const revision = "2026-07-28"
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{
			"name": tool, "arguments": json.RawMessage(args), "_meta": map[string]any{
				"io.modelcontextprotocol/protocolVersion":    revision,
				"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "bench", "version": "1"},
				"io.modelcontextprotocol/clientCapabilities": map[string]any{}}}})
	if err != nil {
		panic(err) // of constants
	}
	return jsonRoute{title: title, peer: peer, path: "/mcp", body: string(body), header: [][2]string{
		{"mcp-protocol-version", revision}, {"mcp-method", "tools/call"}, {"mcp-name", tool}}}
}

// mcp measures tools/call over MCP, saturated, interleaved.
func (b *bench) mcp(ctx context.Context) (string, error) {
	return b.requests(ctx, "tools/call", mcpRoutes(b.opts), toJSON())
}

// toJSON compares calls over MCP with the same over JSON.
func toJSON() comparison {
	return comparison{head: "JSON", goal: mcpGoal, base: func(r jsonRoute) bool { return r.path != "/mcp" },
		judged: func(r jsonRoute) bool { return r.path == "/mcp" && r.peer.Name == "capgate" }}
}
