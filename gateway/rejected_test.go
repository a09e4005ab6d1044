package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// TestRejectedRequestsAreRecorded: each request that a front door rejects before it is a call has one line in
// the access log, with its id and reason; a failed call has only its own line.
func TestRejectedRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	g := startMCP(t).gateway
	tests := map[string]struct {
		method, path, body string
		header             []string
		reason             string // empty means a call
	}{
		"body":  {"POST", "/v1/capabilities/caps/invoke", `{`, nil, "INVALID_BODY"},
		"field": {"POST", "/v1/capabilities/caps/invoke", `{"no":1}`, nil, "INVALID_BODY"},
		"header": {"POST", "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`,
			[]string{"Request-Timeout", "x"}, "INVALID_HEADER"},
		"path": {"GET", "/v1/nothing", "", nil, "NO_SUCH_PATH"},
		"MCP body": {"POST", "/mcp", `[`, []string{"Accept", "application/json, text/event-stream"},
			"INVALID_BODY"},
		"Connect body":  {"POST", "/selu.capability.Capability/Invoke", `{"no":}`, nil, "REQUEST_MALFORMED"},
		"a failed call": {"POST", "/v1/capabilities/none/invoke", `{"tool_name":"x"}`, nil, "CAPABILITY_UNKNOWN"},
	}
	for name, test := range tests {
		r, err := http.NewRequestWithContext(t.Context(), test.method, g.URL(test.path), strings.NewReader(test.body))
		check.Must(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Request-Id", name)
		for i := 0; i < len(test.header); i += 2 {
			r.Header.Set(test.header[i], test.header[i+1])
		}
		resp, err := clienttest.HTTP.Do(r)
		check.Must(t, err)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
	for _, line := range g.Log.Calls(t, len(tests)) {
		if test, ok := tests[line.Text("request_id")]; !ok || line.Text("reason") != test.reason {
			t.Errorf("got %v", line)
		}
	}
}
