package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// BenchmarkToolCalls makes the same call over the tool's route of the JSON API and over MCP, with arguments and a
// result of 1 KiB. Client and backend are included, and are the same for both.
func BenchmarkToolCalls(b *testing.B) {
	f := startMCP(b)
	args := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 1<<10))
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":%s%s}}`
	const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	accept := []string{"application/json, text/event-stream"}
	for version, client := range map[string]*http.Client{"1.1": f.gateway.HTTP1(b), "2": f.gateway.HTTP2(b)} {
		for _, of := range []struct {
			name, path, body string
			header           http.Header
		}{
			{"JSON", "/v1/capabilities/caps/tools/echo", args, http.Header{}},
			{"MCP-2025-11-25", "/mcp", fmt.Sprintf(message, args, ""), http.Header{
				"Mcp-Protocol-Version": {"2025-11-25"}, "Accept": accept}},
			{"MCP-2026-07-28", "/mcp", fmt.Sprintf(message, args, meta), http.Header{
				"Mcp-Protocol-Version": {"2026-07-28"}, "Accept": accept,
				"Mcp-Method": {"tools/call"}, "Mcp-Name": {"caps__echo"}}},
		} {
			of.header["Content-Type"] = []string{"application/json"}
			of.header["Accept-Encoding"] = []string{"identity"}
			b.Run("HTTP-"+version+"/"+of.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, f.gateway.URL(of.path),
						strings.NewReader(of.body))
					check.Must(b, err)
					r.Header = of.header
					resp, err := client.Do(r)
					check.Must(b, err)
					text, err := io.ReadAll(resp.Body)
					check.Must(b, err)
					check.Must(b, resp.Body.Close())
					if resp.StatusCode != http.StatusOK || len(text) < len(args) {
						b.Fatalf("%s %s", resp.Status, text)
					}
				}
			})
		}
	}
}
