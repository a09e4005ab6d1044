package rest_test

import (
	"context"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestWhoAsksForApproval: the gateway's own request is a 202 that names the approval. A capability that says the same
// has failed.
func TestWhoAsksForApproval(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]int{"capgate.dev": 202, "weather.example": 400, "": 400} {
		st, err := status.New(codes.FailedPrecondition, "wait").WithDetails(&errdetails.ErrorInfo{
			Reason: call.ApprovalRequired, Domain: domain, Metadata: map[string]string{"approval": "apr_1"}})
		check.Must(t, err)
		b := &backend{invoke: func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
			return nil, st.Err()
		}}
		got := resttest.Send(t, door(t, b, rest.Config{}), "POST", invokePath, `{"tool_name":"t"}`)
		if got.Status != want || (got.Header.Get("Location") == "/v1/approvals/apr_1") != (want == 202) {
			t.Errorf("%q: %d %v %s", domain, got.Status, got.Header, got.Body)
		}
	}
}
