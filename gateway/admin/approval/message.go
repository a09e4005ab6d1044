package approval

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// JSON encodes an approval as the services return it.
func JSON(a *approvals.Approval) ([]byte, error) {
	return restjson.Marshal(approvalOf(a))
}

func approvalOf(a *approvals.Approval) *capgatepb.Approval {
	p := &capgatepb.Approval{
		Name:       paging.Name("tenants", untrusted.UTF8(a.Tenant), "approvals", a.ID),
		UpdateTime: restjson.Time(a.Updated()), Id: a.ID,
		Tenant: untrusted.UTF8(a.Tenant), User: untrusted.UTF8(a.User), Agent: untrusted.UTF8(a.Agent),
		Capability: untrusted.UTF8(a.Capability), Tool: untrusted.UTF8(a.Tool),
		Description: a.Description, Arguments: a.Preview, Session: untrusted.UTF8(a.Session),
		Level: a.Level, Why: a.Why,
		ToolChange: a.Change,
		RequestId:  a.RequestID,
		CreateTime: restjson.Time(a.Created), ExpireTime: restjson.Time(a.Expires),
		AnswerTime: restjson.Time(a.Answered),
		AnsweredBy: a.By, Comment: a.Comment, Link: a.Link,
	}
	if a.State != 0 { // the approval is forgotten
		p.State = a.State.String()
	}
	if !a.Answered.IsZero() {
		p.Remember, p.ValidUntil = a.Remember.String(), restjson.Time(a.ValidUntil())
	}
	p.ArgumentsJson, p.Policy, p.ArgumentsExcerpt = a.Value, policyOf(a), a.Excerpt
	if a.State == approvals.Pending && a.Level != approvals.Elsewhere && !a.Seen() {
		p.MayNotApproveWhy = approvals.RefusedUnseen(a).Message
	}
	for i := range a.Answers {
		g := &a.Answers[i]
		p.Answers = append(p.Answers, &capgatepb.ApprovalAnswer{By: untrusted.UTF8(g.By), User: untrusted.UTF8(g.User),
			Answer: g.State.String(), Comment: g.Comment, Time: restjson.Time(g.Time), Remember: g.Remember.String()})
	}
	if t := a.Terms; t != nil && a.ID != "" && a.State != 0 {
		p.RequiredAnswers, p.Groups = int32(t.Answers), t.Groups
		p.EscalateTime, p.EscalateGroups = restjson.Time(t.Escalates), t.EscalateGroups
		p.ReasonRequired, p.ReasonRequiredToApprove = t.Reason != approvals.ReasonNever,
			t.Reason == approvals.ReasonAlways
		if t.MaxValidity > 0 {
			p.MaxValidity = durationpb.New(t.MaxValidity)
		}
	}
	return p
}

// shown encodes an approval for a reader, with what the reader may do.
func (s *server) shown(a *approvals.Approval, v *caller) *capgatepb.Approval {
	p := approvalOf(a)
	if v.all { // the roles for its tenant count
		narrow := *v
		narrow.at(a.Tenant)
		v = &narrow
	}
	switch refusal := s.Approvals.MayAnswer(a, &v.approver); {
	case a.State == 0:
	case !v.answers:
		p.MayNotAnswerWhy = refusedAnswer.Message
	case refusal != nil:
		p.MayNotAnswerWhy = refusal.Message
	default:
		p.MayAnswer = true
	}
	return p
}

// policies describe the levels that require approval.
var policies = map[string]string{ //nolint:gochecknoglobals // a constant, if Go had such
	call.ByUserAgent.String():   "a rule for this user with this agent",
	call.ByUser.String():        "a rule for this user",
	call.ByTenantAgent.String(): "a rule for this agent",
	call.ByTenant.String():      "a rule of the tenant",
	call.ByGlobal.String():      "a rule for all tenants",
	call.ByManifest.String():    "the recommendation in the tool's manifest",
	call.ByFleet.String():       "the policy of the fleet",
	call.ByDefault.String():     "the gateway's default",
	"shield":                    "the shield",
	"engine":                    "the engine requested approval",
	approvals.Elsewhere:         "the engine requested approval in its own page",
}

// policyOf says in words what requires an approval.
func policyOf(a *approvals.Approval) string {
	text, known := policies[a.Level]
	if !known {
		return a.Level
	}
	return text + " (" + a.Level + ")"
}

func (s *server) eventOf(e *approvals.Event, v *caller) *capgatepb.WatchApprovalsResponse {
	resp := &capgatepb.WatchApprovalsResponse{Id: e.ID, Event: string(e.Kind)}
	if e.Approval.ID != "" {
		resp.Approval = s.shown(&e.Approval, v)
	}
	return resp
}
