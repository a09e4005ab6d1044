package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// TestLateApprovalOfReusedMemory: a notification of an approval for a call that has ended does not reach the next call,
// which has its memory, and receives its own notification.
func TestLateApprovalOfReusedMemory(t *testing.T) {
	t.Parallel()
	var late []func(call.Approval) time.Duration
	h := mcp.New(mcp.Config{Conn: &asking{}, Catalog: &asking{}, Authenticate: allowed, Invokes: allowed,
		Lists: allowed, Tenant: func(*http.Request) string { return "acme" },
		Caller: func(*http.Request) string { return "acme" },
		Unary: func(ctx context.Context, _ *relay.Request, _ []byte, _ *relay.Response) {
			for _, asked := range late {
				if wait := asked(call.Approval{ID: "late"}); wait != 0 {
					t.Errorf("a call that has ended waits %s", wait)
				}
			}
			own := request.CallOf(ctx).Asked
			if wait := own(call.Approval{ID: "own"}); wait == 0 {
				t.Error("a call does not wait for its approval")
			}
			late = append(late, own)
		}})
	for range 20 { // under the race detector, some memory is not used again
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, mcp.Path, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":{}}}`))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2025-11-25"}}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if len(late) != 20 {
		t.Errorf("%d calls were made", len(late))
	}
}
