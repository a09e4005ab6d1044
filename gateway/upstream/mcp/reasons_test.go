package mcp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// TestReasonsOfServers: the state of a backend that is no MCP server says what is there, and what to write.
func TestReasonsOfServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc // nil means a gRPC server
		want    string
	}{
		"gRPC": {nil, "protocol: grpc"},
		"another path": {func(w http.ResponseWriter, q *http.Request) { http.NotFound(w, q) },
			"HTTP 404: MCP is not served at this path; most servers serve it at /mcp"},
		"a reason": {answerWith(403, "application/json", `{"error":"host not allowed: set ALLOWED_HOSTS"}`),
			`HTTP 403: {"error":"host not allowed: set ALLOWED_HOSTS"}`},
		"a credential": {answerWith(401, "text/plain", ""),
			"HTTP 401: the server requires a credential; set one in mcp_server.headers_file"},
		"a page":  {answerWith(200, "text/html", "<html>"), "an HTML page"},
		"failure": {answerWith(500, "text/plain", "no\x1b[2J\x00 disk"), "HTTP 500: no[2J disk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "http://" + grpctest.Start(t, grpctest.Options{}).Addr + "/"
			if c.handler != nil {
				r := newRemote(t, false)
				fault := http.Handler(c.handler)
				r.handler.Store(&fault)
				url = r.URL
			}
			w := start(t, nil, url)
			var reason string
			w.gateway.WaitHealth(t, id, func(s *health.Snapshot) bool {
				reason = s.Backends[0].Reason
				return s.Backends[0].State == health.Down
			})
			if !strings.Contains(reason, c.want) {
				t.Errorf("%q, want %q", reason, c.want)
			}
		})
	}
}
