package approval_test

import (
	"context"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pendingSource is the part of the store that counts.
type pendingSource interface {
	Pending(ctx context.Context, tenant string) (approvals.Backlog, error)
}

// TestListsSayHowManyWait: the first page of a list of pending approvals counts those of all its tenants, and no other
// page does. A caller who sees only a part gets no count.
func TestListsSayHowManyWait(t *testing.T) {
	t.Parallel()
	p := serve(t, func(cfg *approval.Config) { cfg.Pending = cfg.Across.(pendingSource).Pending })
	for _, tool := range []string{"send", "read", "send_all"} {
		p.ask(t, approvals.Request{User: "ann", Tool: tool})
	}
	denied := p.ask(t, approvals.Request{User: "bob", Tool: "send"})
	if _, err := p.client.Deny(t.Context(), &capgatepb.DenyRequest{ApprovalId: denied.ID}); err != nil {
		t.Fatal(err)
	}
	for want, req := range map[int32]*capgatepb.ListApprovalsRequest{
		3: {State: "pending", Text: "SEND", Order: "oldest", PageSize: 1},
		0: {Text: "send"},
	} {
		resp, err := p.client.ListApprovals(t.Context(), req)
		if err != nil || resp.GetTotalPending() != want || len(resp.GetApprovals()) == 0 {
			t.Errorf("%v: %v, %v", req, resp, err)
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			continue
		}
		if resp, err = p.client.ListApprovals(t.Context(), req); err != nil || resp.GetTotalPending() != 0 ||
			len(resp.GetApprovals()) != 1 || resp.GetApprovals()[0].GetTool() != "send_all" {
			t.Errorf("the second page: %v, %v", resp, err)
		}
	}
	resp, err := p.callers.ListApprovals(caller(t.Context(), tenant.Default, "ann"),
		&capgatepb.ListApprovalsRequest{State: "pending"})
	if err != nil || resp.GetTotalPending() != 0 || len(resp.GetApprovals()) != 3 {
		t.Errorf("a user of the tenant: %v, %v", resp, err)
	}
	for field, req := range map[string]*capgatepb.ListApprovalsRequest{
		"text": {Text: strings.Repeat("x", 257)}, "order": {Order: "random"}, "order ": {Order: "expires"},
		" order": {Order: "expires", State: "used"},
	} {
		_, err := p.client.ListApprovals(t.Context(), req)
		if clienttest.Metadata(err, "field") != strings.TrimSpace(field) {
			t.Errorf("%v: %v", req, err)
		}
	}
}
