package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
)

// kind is a kind of HTTP request that a proxy translates into a call of the backend.
type kind string

const (
	invoke  kind = "json-invoke" // the route of a capability, with the tool's name in the body
	perTool kind = "json-tool"   // the route of a tool
	connect kind = "connect"     // the backend's own method, over Connect with JSON
	mcp     kind = "mcp"         // tools/call of MCP, revision 2026-07-28

	mcpLegacy kind = "mcp-2025-11-25" // the same in the last revision with sessions

	connectProto kind = "connect-proto" // the backend's own method with its own messages, like the next two
	grpcWeb      kind = "grpc-web"
	grpcWebText  kind = "grpc-web-text"
)

const (
	jsonSize     = 1024 // bytes of arguments, and of the result
	jsonInFlight = 64
)

var jsonWork = h2.Work{Kind: h2.ReplyWork, Count: 1, Size: jsonSize}.String()

// requests returns the scenarios of a kind: saturated, over HTTP/1.1 and HTTP/2.
func requests(k kind, title string, d door) []scenario {
	one := scenario{name: string(k) + "-h1", title: title + " over HTTP/1.1", figure: "µs CPU a request",
		cfg:  load.Config{Mode: load.Closed, JSON: &load.JSON{HTTP1: true}, Conns: jsonInFlight},
		kind: k, cost: perCall, rate: calls, door: d}
	two := one
	two.name, two.title = string(k)+"-h2", title+" over HTTP/2"
	two.cfg.JSON, two.cfg.Conns, two.cfg.Streams = &load.JSON{}, 8, jsonInFlight/8
	return []scenario{one, two}
}

// load returns the scenario's load for the peer of a column.
func (s scenario) load(column string) load.Config {
	cfg := s.cfg
	if s.kind != "" {
		j := *cfg.JSON
		var body string
		j.Path, body, cfg.Header = s.kind.request(column)
		j.Body = []byte(body)
		switch s.kind {
		case mcp, mcpLegacy:
			j.Accept = "application/json, text/event-stream" // as the SDKs send it
		case connectProto:
			j.Type = "application/proto"
		case grpcWeb:
			j.Type = "application/grpc-web+proto"
		case grpcWebText:
			j.Type = "application/grpc-web-text"
		}
		cfg.JSON = &j
	}
	return cfg
}

// request returns the request for a call of the backend at the peer of a column.
func (k kind) request(column string) (path, body string, header [][2]string) {
	args := `{"text":"` + strings.Repeat("x", jsonSize-len(`{"text":""}`)) + `"}`
	bytes := base64.StdEncoding.EncodeToString([]byte(args))
	const base = "/v1/capabilities/weather"
	switch k {
	case mcp, mcpLegacy:
		tool := jsonWork
		if isCapgate(column) {
			tool = "weather__" + tool
		}
		if k == mcpLegacy {
			return legacyToolsCall(tool, args)
		}
		return toolsCall(tool, args)
	case connect:
		body = fmt.Sprintf(`{"toolName":%q,"argsJson":%q,"sessionId":"bench-session-1","capabilityId":"weather"}`,
			jsonWork, bytes)
		return h2.PathInvoke, body, [][2]string{{"connect-protocol-version", "1"}}
	case connectProto, grpcWeb, grpcWebText:
		const prefix = 5 // flags and length of a message
		work := h2.Work{Kind: h2.ReplyWork, Count: 1, Size: jsonSize}
		body = string(h2.InvokeRequest(work, "weather", "bench-session-1", jsonSize))
		switch k {
		case connectProto:
			return h2.PathInvoke, body[prefix:], [][2]string{{"connect-protocol-version", "1"}}
		case grpcWebText:
			body = base64.StdEncoding.EncodeToString([]byte(body))
		}
		return h2.PathInvoke, body, nil
	case perTool:
		return base + "/tools/" + jsonWork, args, nil
	}
	if !isCapgate(column) { // transcoders that do not know the protocol encode bytes as base64
		return base + "/invoke", fmt.Sprintf(`{"tool_name":%q,"args_json":"%s","session_id":"bench-session-1"}`,
			jsonWork, bytes), nil
	}
	body = fmt.Sprintf(`{"tool_name":%q,"args":%s,"session_id":"bench-session-1"}`, jsonWork, args)
	return base + "/invoke", body, nil
}

// toolsCall returns a request of revision 2026-07-28.
func toolsCall(tool, args string) (path, body string, header [][2]string) {
	const revision = "2026-07-28"
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{
			"name": tool, "arguments": json.RawMessage(args), "_meta": map[string]any{
				"io.modelcontextprotocol/protocolVersion":    revision,
				"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "bench", "version": "1"},
				"io.modelcontextprotocol/clientCapabilities": map[string]any{}}}})
	if err != nil {
		panic(err) // constants cannot fail
	}
	return "/mcp", string(b), [][2]string{
		{"mcp-protocol-version", revision}, {"mcp-method", "tools/call"}, {"mcp-name", tool}}
}

// legacyToolsCall returns a request of revision 2025-11-25.
func legacyToolsCall(tool, args string) (path, body string, header [][2]string) {
	return "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
		tool, args), [][2]string{{"mcp-protocol-version", "2025-11-25"}}
}

// isCapgate reports whether a column belongs to a build of capgate.
func isCapgate(column string) bool {
	return strings.HasPrefix(column, "capgate") || strings.HasPrefix(column, "before")
}

// door is the protocol that a peer must serve in a scenario.
type door uint8

const (
	grpcDoor door = iota
	tlsDoor       // gRPC over TLS
	jsonDoor      // JSON for a backend of gRPC
	ownDoor       // served only by capgate
	mcpDoor
)

// behind returns how the peer of a column serves a door. ok is false if it does not.
func (d door) behind(s peers.Spec, envoy string) (peers.Spec, bool) {
	switch {
	case d == grpcDoor:
		return s, true
	case d == tlsDoor:
		return s.OverTLS(), s.Secure
	case isCapgate(s.Name):
		return s, true
	case d == jsonDoor && s.Name == "envoy":
		return peers.EnvoyTranscoder(envoy), true
	case d == jsonDoor && s.Name == "grpc-go":
		return peers.GRPCGateway(), true
	case d == mcpDoor && s.Name == "grpc-go":
		return peers.MCPProxy(jsonWork), true
	}
	return s, false
}
