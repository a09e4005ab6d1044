package cli

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// TestMCPSessionsOfAllReplicas: of many concurrent sessions, each is valid at every replica, and none is lost
// when the replica that started it is killed.
func TestMCPSessionsOfAllReplicas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	const sessions, busy = 1000, 32
	ids := make([]string, sessions)
	each := func(do func(i int)) {
		var all sync.WaitGroup
		for worker := range busy {
			all.Go(func() {
				for i := worker; i < sessions; i += busy {
					do(i)
				}
			})
		}
		all.Wait()
	}
	each(func(i int) {
		resp, _ := postMCP(t, c.gateways[i%3], `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+
			`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		ids[i] = resp.Header.Get("Mcp-Session-Id")
	})
	lost := func(to func(i int) *member) int64 {
		var n atomic.Int64
		each(func(i int) {
			want := mcpArgs(strconv.Itoa(i))
			resp, text := postMCP(t, to(i),
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"caps__echo",`+`"arguments":`+want+`}}`,
				"Mcp-Session-Id", ids[i], "Mcp-Protocol-Version", "2025-11-25")
			if resp.StatusCode != http.StatusOK || ids[i] == "" ||
				!strings.Contains(text, `"structuredContent":`+want) {
				if n.Add(1) == 1 {
					t.Errorf("session %d: %d %s", i, resp.StatusCode, text)
				}
			}
		})
		return n.Load()
	}
	for next := range 2 {
		if n := lost(func(i int) *member { return c.gateways[(i+1+next)%3] }); n > 0 {
			t.Errorf("%d sessions are lost at another replica", n)
		}
	}
	c.gateways[0].kill()
	if n := lost(func(i int) *member { return c.gateways[1+i%2] }); n > 0 {
		t.Errorf("%d sessions are lost without the replica that began them", n)
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != sessions {
		t.Error("two sessions have one id")
	}
}

// postMCP sends a message to a gateway; header holds names and values in turn.
func postMCP(t *testing.T, g *member, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.addr+"/mcp",
		strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return &http.Response{}, ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := clienttest.HTTP.Do(req)
	if err != nil {
		t.Error(err)
		return &http.Response{}, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp, string(text)
}
