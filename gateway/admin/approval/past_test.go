package approval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// answered makes approvals of ann and bob, and answers all but one of them.
func answered(t *testing.T, p *ports) {
	t.Helper()
	for i, tool := range []string{"send", "read", "send", "send"} {
		a := p.ask(t, approvals.Request{User: []string{"ann", "bob"}[i%2], Tool: tool,
			Args: fmt.Appendf(nil, `{"secret":%d}`, i), RequestID: "req-" + tool})
		var err error
		switch i {
		case 0:
			_, err = p.client.Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: a.ID, By: "eve"})
		case 1:
			_, err = p.client.Deny(t.Context(), &capgatepb.DenyRequest{ApprovalId: a.ID, By: "zoe",
				Comment: "not before Monday"})
		case 2:
			err = p.backing.Withdraw(t.Context(), tenant.Default, a.ID)
		}
		check.Must(t, err)
	}
}

// TestPastApprovals: approvals that have ended are listed without arguments, the newest first, by filters and pages. A
// caller sees those of its user.
func TestPastApprovals(t *testing.T) {
	t.Parallel()
	p := serve(t)
	answered(t, p)
	list := func(client capgatepb.ApprovalsClient, ctx context.Context,
		req *capgatepb.ListPastApprovalsRequest) *capgatepb.ListPastApprovalsResponse {
		t.Helper()
		resp, err := client.ListPastApprovals(ctx, req)
		check.Must(t, err)
		return resp
	}
	for want, req := range map[string]*capgatepb.ListPastApprovalsRequest{
		"withdrawn denied approved": {},
		"approved":                  {Outcome: "approved", AnsweredBy: "ev"},
		"denied":                    {Query: "MONDAY req-read"},
		"withdrawn approved":        {User: "ann", Tool: "send"},
		"":                          {Capability: "other"},
		" ":                         {EndTime: timestamppb.New(time.Now().Add(-time.Hour))},
	} {
		var got []string
		for _, a := range list(p.client, t.Context(), req).GetApprovals() {
			got = append(got, a.GetOutcome())
		}
		if strings.Join(got, " ") != strings.TrimSpace(want) {
			t.Errorf("%v: %v, want %q", req, got, want)
		}
	}
	page := list(p.client, t.Context(), &capgatepb.ListPastApprovalsRequest{PageSize: 2})
	rest := list(p.client, t.Context(), &capgatepb.ListPastApprovalsRequest{PageSize: 2,
		PageToken: page.GetNextPageToken()})
	if len(page.GetApprovals()) != 2 || len(rest.GetApprovals()) != 1 || rest.GetNextPageToken() != "" {
		t.Errorf("pages: %v, %v", page, rest)
	}
	denied := page.GetApprovals()[1]
	if denied.GetAnsweredBy() != "zoe" || denied.GetAnswerDuration() == nil || denied.GetCreateTime() == nil ||
		denied.GetEndTime().AsTime().Before(denied.GetCreateTime().AsTime()) ||
		page.GetApprovals()[0].GetAnswerDuration() != nil || strings.Contains(page.String(), "secret") {
		t.Errorf("%v", page)
	}
	mine := list(p.callers, caller(t.Context(), tenant.Default, "bob"), &capgatepb.ListPastApprovalsRequest{})
	if len(mine.GetApprovals()) != 1 || mine.GetApprovals()[0].GetUser() != "bob" {
		t.Errorf("a caller sees %v", mine)
	}
	for field, req := range map[string]*capgatepb.ListPastApprovalsRequest{"outcome": {Outcome: "used"},
		"query": {Query: strings.Repeat("x", 257)}, "tool": {Tool: strings.Repeat("x", 257)},
		"end_time":  {StartTime: timestamppb.Now(), EndTime: timestamppb.New(time.Now().Add(-time.Hour))},
		"page_size": {PageSize: -1}} {
		if _, err := p.client.ListPastApprovals(t.Context(), req); clienttest.Metadata(err, "field") != field {
			t.Errorf("%v: %v", req, err)
		}
	}
}

// TestApprovalStatistics: all approvals of the time are counted, by day, tool and person. A caller with a user gets
// none.
func TestApprovalStatistics(t *testing.T) {
	t.Parallel()
	p := serve(t)
	answered(t, p)
	resp, err := p.client.GetApprovalStatistics(t.Context(), &capgatepb.GetApprovalStatisticsRequest{})
	check.Must(t, err)
	s := resp.GetStatistics()
	if all := s.GetAll(); all.GetApproved() != 1 || all.GetDenied() != 1 || all.GetExpired() != 0 ||
		all.GetWithdrawn() != 1 || all.GetDeniedShare() != 0.5 || all.GetP90().AsDuration() <= 0 ||
		all.GetP90().AsDuration() < all.GetP50().AsDuration() {
		t.Errorf("all: %v", all)
	}
	var ofDays int32
	for _, day := range s.GetDays() {
		ofDays += day.GetCounts().GetApproved() + day.GetCounts().GetDenied() + day.GetCounts().GetWithdrawn()
	}
	if len(s.GetDays()) != 31 || ofDays != 3 {
		t.Errorf("%d days with %d", len(s.GetDays()), ofDays)
	}
	if tools := s.GetTools(); len(tools) != 2 || tools[0].GetTool() != "send" || tools[0].GetCapability() != "mail" ||
		tools[1].GetCounts().GetDenied() != 1 {
		t.Errorf("tools: %v", s.GetTools())
	}
	if people := s.GetPeople(); len(people) != 2 || people[0].GetName() != "eve" || people[1].GetName() != "zoe" {
		t.Errorf("people: %v", s.GetPeople())
	}
	_, err = p.callers.GetApprovalStatistics(caller(t.Context(), tenant.Default, "ann"),
		&capgatepb.GetApprovalStatisticsRequest{})
	if clienttest.Reason(err) != "APPROVER_REQUIRED" {
		t.Errorf("a caller with a user: %v", err)
	}
}
