package mcp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// tasks are those of one caller. The states of their approvals are given one after the other.
type tasks struct {
	mcp.Tasks
	kept   []byte
	states []string
}

func (s *tasks) Keep(_ *http.Request, _ string, call []byte) bool { s.kept = call; return true }

func (s *tasks) Kept(*http.Request, string) ([]byte, error) { return s.kept, nil }

func (s *tasks) State(*http.Request, string) (state string, _ error) {
	state, s.states = s.states[0], s.states[1:]
	return state, nil
}

// TestTaskOfARefusedCall: a task whose approval another request has used is working while that request makes the call,
// and after it has given the approval back. It has failed if the call was made, and something else refuses it.
func TestTaskOfARefusedCall(t *testing.T) {
	t.Parallel()
	const used, limited, failed = "APPROVAL_USED", "RATE_LIMITED", `"status":"failed"`
	for _, test := range []struct{ refusal, before, after, want string }{
		{used, mcp.TaskStarts, mcp.TaskStarts, `"status":"working"`},
		{used, mcp.TaskApproved, mcp.TaskStarts, `"status":"working"`},
		{used, mcp.TaskStarts, mcp.TaskApproved, `"status":"working"`},
		{used, mcp.TaskApproved, mcp.TaskApproved, `"status":"working"`},
		{used, mcp.TaskApproved, "used", failed},
		{used, mcp.TaskApproved, "denied", failed},
		{limited, mcp.TaskApproved, mcp.TaskApproved, `"error":`},
		{limited, mcp.TaskApproved, mcp.TaskPending, `"error":`},
		{limited, mcp.TaskApproved, mcp.TaskStarts, failed},
	} {
		a, of, reason := newAsking(t), &tasks{}, "APPROVAL_REQUIRED"
		a.Handler = mcp.New(mcp.Config{Conn: a, Catalog: a, Tasks: of,
			Authenticate: allowed, Invokes: allowed, Lists: allowed,
			Tenant: func(*http.Request) string { return "acme" },
			Caller: func(*http.Request) string { return "acme" },
			Unary: func(ctx context.Context, _ *relay.Request, _ []byte, r *relay.Response) {
				if asked := request.CallOf(ctx).Asked; asked != nil {
					asked(call.Approval{ID: "apr_1", Expires: time.Now().Add(time.Hour), Pending: true})
				}
				refused, err := grpcstatus.New(codes.FailedPrecondition, "refused").WithDetails(&errdetails.ErrorInfo{
					Domain: status.Domain, Reason: reason,
					Metadata: map[string]string{"approval": "apr_1", "expires": "2100-01-01T00:00:00Z"}})
				if err != nil {
					t.Error(err)
				}
				r.Status = relay.Status{Code: uint32(codes.FailedPrecondition), Message: "refused"}
				r.Status.Details, _ = proto.Marshal(refused.Proto())
			}})
		ask := func(method, name, params string) string {
			return a.send(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,"_meta":{`+
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+
				`{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, "Mcp-Name", name, "Mcp-Method", method,
				"Mcp-Protocol-Version", "2026-07-28").Body.String()
		}
		if text := ask("tools/call", "caps__echo", `"name":"caps__echo","arguments":{}`); !strings.Contains(text,
			`"taskId":"apr_1"`) {
			t.Fatal(text)
		}
		reason, of.states = test.refusal, []string{test.before, test.after}
		if text := ask("tasks/get", "apr_1", `"taskId":"apr_1"`); !strings.Contains(text, test.want) ||
			test.want != failed && strings.Contains(text, failed) {
			t.Errorf("%s, before %s, after %s: %s, want %s", test.refusal, test.before, test.after, text, test.want)
		}
	}
}
