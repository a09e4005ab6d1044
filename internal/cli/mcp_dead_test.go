package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// failing is an MCP server that responds, hangs, or has crashed.
type failing struct {
	*httptest.Server
	hangs atomic.Bool
}

func newFailing(t *testing.T) *failing {
	t.Helper()
	var credential atomic.Value
	credential.Store("")
	_, web := newMCPServer(t, &credential)
	s, next := &failing{Server: web}, web.Config.Handler
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hangs.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of the connection is not noticed
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
	_ = web.Listener.Close()
	web.Listener = check.Listen(t)
	web.Start()
	return s
}

// TestOneOfFiveMCPServersIsDead: a server that hangs or has crashed does not affect the other four: their tools
// are listed and called, before and after that server's tools are known. Its own tools stay in the list.
func TestOneOfFiveMCPServersIsDead(t *testing.T) {
	t.Parallel()
	var names, fleets []string
	bad := newFailing(t)
	bad.hangs.Store(true)
	for i := range 4 {
		names = append(names, fmt.Sprintf("good%d__weather", i))
		fleets = append(fleets, mcpFleet(fmt.Sprintf("good%d", i), newFailing(t).URL+"/mcp", ""))
	}
	_, public, admin := serve(t, nil, "--config", writeConfig(t, mcpConfig("",
		append(fleets, mcpFleet("bad", bad.URL+"/mcp", ""))...)))
	call := func(name string) string {
		return askMCP(t, public, "tools/call", `{"name":"`+name+`","arguments":{"city":"Ulm"}}`)
	}
	unharmed := func(when string) {
		t.Helper()
		list := askMCP(t, public, "tools/list", "{}")
		for _, name := range names {
			if text := call(name); !strings.Contains(text, "sun in Ulm") || !strings.Contains(list, `"`+name+`"`) {
				t.Errorf("%s: %s: %s\nof %s", when, name, text, list)
			}
		}
	}
	waitTools(t, public, names...)
	unharmed("one hangs from the start")
	bad.hangs.Store(false)
	waitTools(t, public, "bad__weather")
	if text := call("bad__weather"); !strings.Contains(text, "sun in Ulm") {
		t.Error(text)
	}
	bad.hangs.Store(true)
	var waiting sync.WaitGroup
	for range 4 {
		waiting.Go(func() {
			if text := call("bad__weather"); strings.Contains(text, "sun in Ulm") {
				t.Error(text)
			}
		})
	}
	unharmed("one hangs with calls")
	bad.CloseClientConnections()
	bad.Close()
	check.Ended(t, &waiting, "the waiting calls to end")
	waitPage(t, "http://"+admin+"/v1/fleets", "connection refused")
	unharmed("one has crashed")
	waitTools(t, public, append(names, "bad__weather")...)
	if text := call("bad__weather"); !strings.Contains(text, `"reason":"`) {
		t.Error(text)
	}
}
