package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/relay"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// asking is a gateway that asks about each call without an approval.
type asking struct {
	grpc.ClientConnInterface
	mcp.Catalog
	t   *testing.T
	ran int
}

func (*asking) Known(string, string) bool { return true }

func (*asking) Relays(string) bool { return false }

func (*asking) Schema(context.Context, string, string) []byte { return nil }

func (a *asking) call(_ context.Context, q *relay.Request, _ []byte, r *relay.Response) {
	for _, f := range q.Header {
		if f.Name == "x-approval-id" {
			a.ran++
			text, err := proto.Marshal(&docpb.InvokeResponse{ResultJson: []byte(`{}`)})
			if err != nil {
				a.t.Error(err)
			}
			r.Message = text
			return
		}
	}
	asked, err := status.New(codes.FailedPrecondition, "a person has to approve it").WithDetails(&errdetails.ErrorInfo{
		Domain: problem.OwnDomain, Reason: "APPROVAL_REQUIRED",
		Metadata: map[string]string{"approval": "apr_1", "approval_link": "https://capgate.example.com/inbox"}})
	if err != nil {
		a.t.Fatal(err)
	}
	details, err := proto.Marshal(asked.Proto())
	if err != nil {
		a.t.Error(err)
	}
	r.Status = relay.Status{Code: uint32(codes.FailedPrecondition), Message: asked.Message(), Details: details}
}

// TestStateExpires: what a client brings back with its call is good for an hour.
func TestStateExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &asking{t: t}
		h := mcp.New(mcp.Config{Conn: a, Unary: a.call, Catalog: a,
			Authenticate: func(*http.Request) error { return nil }, HTTPStatus: func(codes.Code) int { return 400 },
			Keys:   func(context.Context) [][]byte { return [][]byte{[]byte("a key that all replicas have")} },
			Tenant: func(*http.Request) string { return "acme" }, Caller: func(*http.Request) string { return "acme" }})
		state := ""
		send := func() (text string) {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
				`{"elicitation":{"url":{}}}},"name":"caps__echo","arguments":{}` + state + `}}`
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, mcp.Path, strings.NewReader(body))
			for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Name": "caps__echo",
				"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"} {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Body.String()
		}
		var asked struct{ Result struct{ RequestState string } }
		if text := send(); json.Unmarshal([]byte(text), &asked) != nil || asked.Result.RequestState == "" {
			t.Fatal(text)
		}
		state = `,"requestState":"` + asked.Result.RequestState + `"`
		<-time.After(time.Hour - time.Second)
		if text := send(); a.ran != 1 || !strings.Contains(text, `"resultType":"complete"`) {
			t.Errorf("in time: %s", text)
		}
		<-time.After(2 * time.Second)
		if text := send(); a.ran != 1 || !strings.Contains(text, "MCP_STATE_INVALID") {
			t.Errorf("too late: %s", text)
		}
	})
}
