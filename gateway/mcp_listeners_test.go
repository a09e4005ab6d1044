package gateway_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// mcpGoroutines returns the stacks of the goroutines in the front door of MCP, except those of its views.
func mcpGoroutines() string {
	buf := make([]byte, 16<<20)
	var found []string
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "frontdoor/mcp.") {
			found = append(found, g)
		}
	}
	return strings.Join(found, "\n\n")
}

// TestMCPListenersWaitWithoutGoroutines: streams of changes have no goroutine while there are no changes. They are
// notified of changes nevertheless, and end when the gateway stops.
func TestMCPListenersWaitWithoutGoroutines(t *testing.T) { //nolint:paralleltest // others have such goroutines
	for _, http2 := range []bool{false, true} {
		f := startMCP(t, func(o *gatewaytest.Options) { o.MCP.Keys = gatewaytest.SharedKeys })
		f.http2 = http2
		f.declare(t, allTools[:1]...)
		var all []*changeStream
		for i := range 3 * len(revisions) {
			s := f.listen(t, revisions[i%len(revisions)])
			s.next(t)
			all = append(all, s)
		}
		check.Succeeds(t, "the goroutines to end", func() error {
			if left := mcpGoroutines(); left != "" {
				return errors.New(left)
			}
			return nil
		})
		f.declare(t, allTools[:2]...)
		for _, s := range all {
			if got := s.next(t); !strings.Contains(got, "tools/list_changed") {
				t.Errorf("over HTTP/2: %t: the client got %s", http2, got)
			}
		}
		f.gateway.Stop(t)
		for _, s := range all {
			for got := ""; got != "EOF"; got = s.next(t) {
				if strings.Contains(got, "error") {
					t.Errorf("over HTTP/2: %t: %s", http2, got)
				}
			}
		}
	}
}
