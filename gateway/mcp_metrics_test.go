package gateway_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestMCPMetrics: requests are counted by method, known tool, error, revision and transport, in the buckets of
// OpenTelemetry's conventions. The revision of initialize is the negotiated one.
func TestMCPMetrics(t *testing.T) {
	t.Parallel()
	at := socket(t, "unix")
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Listeners = []gateway.Listener{{Of: &tenant.Listener{Scopes: tenant.Invoke | tenant.Read}, Socket: at}}
	})
	s := f.session(t, revisions[0], nil)
	for _, name := range []string{gatewaytest.Echo, gatewaytest.Fail, "hidden", "made up"} {
		_, _ = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + name})
	}
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"3000-01-01",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	f.post(t, begin)
	f.post(t, ping)
	f.post(t, ping, "Mcp-Protocol-Version", "2025-06-18")
	f.post(t, ping, "Mcp-Protocol-Version", "3000-01-01")
	overSocket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", at.Addr().String())
		}}, Timeout: check.Patience}
	clienttest.Send(t, overSocket, http.MethodPost, "http://localhost"+mcp.Path, ping, "Content-Type",
		"application/json", "Accept", "application/json, text/event-stream")

	_, text := f.gateway.Admin(t, "/metrics")
	for _, labels := range []string{
		`error_type="",gen_ai_tool_name="caps__echo",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28"`,
		`error_type="tool_error",gen_ai_tool_name="caps__fail",mcp_method_name="tools/call",` +
			`mcp_protocol_version="2026-07-28"`,
		`error_type="-32602",gen_ai_tool_name="caps__hidden",mcp_method_name="tools/call",` +
			`mcp_protocol_version="2026-07-28"`,
		`error_type="-32602",gen_ai_tool_name="",mcp_method_name="tools/call",mcp_protocol_version="2026-07-28"`,
		`error_type="",gen_ai_tool_name="",mcp_method_name="server/discover",mcp_protocol_version="2026-07-28"`,
		`error_type="",gen_ai_tool_name="",mcp_method_name="initialize",mcp_protocol_version="2025-11-25"`,
		`error_type="",gen_ai_tool_name="",mcp_method_name="ping",mcp_protocol_version="2025-03-26"`,
		`error_type="",gen_ai_tool_name="",mcp_method_name="ping",mcp_protocol_version="2025-06-18"`,
	} {
		series := labels + `,network_transport="tcp"`
		if !strings.Contains(text, "mcp_server_operation_duration_seconds_count{"+series+"} 1") {
			t.Errorf("not counted: %s", labels)
		}
	}
	const series = `error_type="",gen_ai_tool_name="",mcp_method_name="ping",mcp_protocol_version="2025-03-26",` +
		`network_transport="unix"`
	if !strings.Contains(text, "mcp_server_operation_duration_seconds_count{"+series+"} 1") {
		t.Error("the request over the socket is not counted")
	}
	var bounds []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "mcp_server_operation_duration_seconds_bucket{"+series+`,le="`); ok {
			bound, _, _ := strings.Cut(rest, `"`)
			bounds = append(bounds, bound)
		}
	}
	const want = "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 30 60 120 300 +Inf"
	if got := strings.Join(bounds, " "); got != want {
		t.Errorf("buckets up to %s, want %s", got, want)
	}
	if strings.Contains(text, "3000-01-01") {
		t.Error("a client has added a label")
	}
}
