package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestRedirectedServer: a server that redirects each request is not healthy, and the reason names the address to
// configure. Nothing goes to another host.
func TestRedirectedServer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.Header.Get("Authorization"))
	}))
	check.Cleanup(t, elsewhere.Close)
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/mcp/?secret=1", code))
		check.Cleanup(t, s.Close)
		servers := mcp.Open(upstream.Options{})
		check.Cleanup(t, servers.Close)
		servers.Set([]upstream.Fleet{{Capability: id, Backends: []string{s.URL},
			Protocol: &mcp.Settings{}, Headers: map[string]string{"authorization": "Bearer ours"}}})
		result := servers.Probe(id).(health.Direct).ProbeAddr(within(t), s.URL)
		if want := "the MCP server redirects to " + elsewhere.URL + "/mcp/: HTTP " + strconv.Itoa(code); result.OK ||
			!strings.Contains(result.Reason, want) || strings.Contains(result.Reason, "secret") {
			t.Errorf("%d: %+v", code, result)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) > 0 {
		t.Errorf("the other host got %v", got)
	}
}
