package approval

import (
	"context"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/archive"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pastPages sets the page sizes of lists of approvals that have ended.
var pastPages = paging.Bounds{Standard: 100, Most: 500, Reason: "APPROVAL_INVALID"}

// ListPastApprovals implements capgatepb.ApprovalsServer.
func (s *server) ListPastApprovals(ctx context.Context, req *capgatepb.ListPastApprovalsRequest) (
	*capgatepb.ListPastApprovalsResponse, error) {
	v, within, err := s.past(ctx, req)
	if err != nil {
		return nil, err
	}
	f, err := pastFilterOf(req)
	if err != nil {
		return nil, err
	}
	page, refusal := pastPages.Read(req)
	if refusal != nil {
		return nil, refusal
	}
	resp := new(capgatepb.ListPastApprovalsResponse)
	if v.user != "" && f.User != "" && f.User != v.user {
		return resp, nil
	}
	if v.user != "" {
		f.User = v.user
	}
	tenants, more, err := s.pastTenants(ctx, &v, archive.MaxOwners)
	if err != nil {
		return nil, err
	}
	f.Sees, within.Before, within.Most = v.capability, page.After, page.Size
	found, err := s.Approvals.Past(ctx, tenants, f, within)
	if err != nil {
		return nil, err
	}
	resp.NextPageToken, resp.Incomplete = paging.Token(found.Next), found.Incomplete || more
	for i := range found.Entries {
		resp.Approvals = append(resp.Approvals, pastOf(&found.Entries[i]))
	}
	return resp, nil
}

// GetApprovalStatistics implements capgatepb.ApprovalsServer.
func (s *server) GetApprovalStatistics(ctx context.Context, req *capgatepb.GetApprovalStatisticsRequest) (
	*capgatepb.GetApprovalStatisticsResponse, error) {
	v, within, err := s.past(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case v.user != "":
		return nil, refusedStatistics
	}
	tenants, more, err := s.pastTenants(ctx, &v, maxCounted)
	if err != nil {
		return nil, err
	}
	sees := approvals.Sees(v.capability)
	if v.seesAll() {
		sees = nil
	}
	all, err := s.Approvals.Statistics(ctx, tenants, within.From, within.To, sees)
	if err != nil {
		return nil, err
	}
	resp := statisticsOf(all)
	resp.Incomplete = more || all.Incomplete
	return &capgatepb.GetApprovalStatisticsResponse{Statistics: resp}, nil
}

// pastRequest is the common part of both requests.
type pastRequest interface {
	GetTenant() string
	GetStartTime() *timestamppb.Timestamp
	GetEndTime() *timestamppb.Timestamp
}

// past returns the caller and the range of time of a request.
func (s *server) past(ctx context.Context, req pastRequest) (v caller, within archive.Range, err error) {
	if v, err = s.caller(ctx, req); err != nil {
		return v, within, err
	}
	within, ok := archive.Between(req.GetStartTime(), req.GetEndTime(), approvals.PastAge)
	if !ok {
		return v, within, invalid("end_time", "it must not be before start_time")
	}
	return v, within, nil
}

// pastTenants returns up to most tenants of a caller that have approvals that have ended. more: there are others.
func (s *server) pastTenants(ctx context.Context, v *caller, most int) (tenants []string, more bool, err error) {
	if !v.all {
		return []string{v.tenant}, false, nil
	}
	for after := ""; ; {
		page, next, err := s.tenantsOf(ctx, v, after, tenantsAtOnce)
		if err == nil {
			page, err = s.Across.PastTenants(ctx, page)
		}
		if err != nil {
			return nil, false, refusedAway
		}
		if tenants = append(tenants, page...); len(tenants) > most {
			return tenants[:most], true, nil
		}
		if after = next; after == "" {
			return tenants, false, nil
		}
	}
}

// pastFilterOf parses the filter of a list.
func pastFilterOf(req *capgatepb.ListPastApprovalsRequest) (*approvals.PastFilter, error) {
	f := &approvals.PastFilter{User: req.GetUser(), Agent: req.GetAgent(), Capability: req.GetCapability(),
		Tool: req.GetTool(), By: req.GetAnsweredBy()}
	for name, text := range map[string]string{"user": f.User, "agent": f.Agent, "capability": f.Capability,
		"tool": f.Tool, "answered_by": f.By} {
		if len(text) > maxName {
			return nil, invalid(name, "it must have at most 256 bytes")
		}
	}
	query, refusal := search.Read("APPROVAL_INVALID", req.GetQuery())
	if f.Query = query; refusal != nil {
		return nil, refusal
	}
	if name := req.GetOutcome(); name != "" {
		var ok bool
		if f.Outcome, ok = approvals.ParseOutcome(name); !ok {
			return nil, invalid("outcome", "it must be approved, denied, expired or withdrawn")
		}
	}
	return f, nil
}

func pastOf(p *approvals.Past) *capgatepb.PastApproval {
	m := &capgatepb.PastApproval{Id: p.ID, Tenant: untrusted.UTF8(p.Tenant), User: p.User, Agent: p.Agent,
		Capability: p.Capability, Tool: p.Tool, RequestId: p.RequestID, Outcome: p.Outcome.String(),
		CreateTime: restjson.Time(p.Created), EndTime: restjson.Time(p.Ended), AnsweredBy: p.By, Comment: p.Comment}
	if p.Outcome == approvals.PastApproved || p.Outcome == approvals.PastDenied {
		m.AnswerDuration, m.Remember = durationpb.New(p.Took()), p.Remember.String()
	}
	return m
}

func statisticsOf(all *approvals.Statistics) *capgatepb.ApprovalStatistics {
	m := &capgatepb.ApprovalStatistics{All: countsOf(&all.All)}
	for i := range all.Days {
		d := &all.Days[i]
		m.Days = append(m.Days, &capgatepb.ApprovalStatistics_Day{Time: timestamppb.New(d.Began),
			Counts: countsOf(&d.Tally)})
	}
	for i := range all.Tools {
		c := &all.Tools[i]
		m.Tools = append(m.Tools, &capgatepb.ApprovalStatistics_Tool{Capability: c.Capability, Tool: c.Tool,
			Others: c.Others, Counts: countsOf(&c.Tally)})
	}
	for i := range all.People {
		c := &all.People[i]
		m.People = append(m.People, &capgatepb.ApprovalStatistics_Person{Name: c.By, Others: c.Others,
			Counts: countsOf(&c.Tally)})
	}
	return m
}

func countsOf(t *approvals.Tally) *capgatepb.ApprovalCounts {
	number := func(o approvals.Outcome) int32 { return int32(min(t.Of(o), math.MaxInt32)) }
	m := &capgatepb.ApprovalCounts{Approved: number(approvals.PastApproved), Denied: number(approvals.PastDenied),
		Expired: number(approvals.PastExpired), Withdrawn: number(approvals.PastWithdrawn)}
	if answered := t.Answered(); answered > 0 {
		m.P50, m.P90 = quantile(t, 0.5), quantile(t, 0.9)
		m.DeniedShare = new(float64(t.Of(approvals.PastDenied)) / float64(answered))
	}
	return m
}

func quantile(t *approvals.Tally, q float64) *durationpb.Duration {
	return durationpb.New(t.Quantile(q).Round(time.Millisecond))
}

var refusedStatistics = &call.Refusal{Kind: call.PermissionDenied, Reason: "APPROVER_REQUIRED",
	Message: "statistics cover all users of a tenant: use the admin API, or a credential that names no user"}
