package approval

import (
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// JSON encodes an approval as the services return it.
func JSON(a *approvals.Approval) ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(approvalOf(a))
}

func approvalOf(a *approvals.Approval) *capgatepb.Approval {
	p := &capgatepb.Approval{
		Name: paging.Name("tenants", shown(a.Tenant), "approvals", a.ID), UpdateTime: timeOf(a.Updated()),
		Id: a.ID, Tenant: shown(a.Tenant), User: shown(a.User), Agent: shown(a.Agent),
		Capability: shown(a.Capability), Tool: shown(a.Tool),
		Description: a.Description, Arguments: a.Preview, Session: shown(a.Session), Level: a.Level, Why: a.Why,
		RequestId:  a.RequestID,
		CreateTime: timeOf(a.Created), ExpireTime: timeOf(a.Expires), AnswerTime: timeOf(a.Answered),
		AnsweredBy: a.By, Comment: a.Comment,
	}
	if a.State != 0 { // the approval is forgotten
		p.State = a.State.String()
	}
	if !a.Answered.IsZero() {
		p.Remember = a.Remember.String()
	}
	return p
}

// shown returns a name of a caller, which may be any bytes, as UTF-8.
func shown(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func eventOf(e *approvals.Event) *capgatepb.WatchApprovalsResponse {
	resp := &capgatepb.WatchApprovalsResponse{Id: e.ID, Event: string(e.Kind)}
	if e.Approval.ID != "" {
		resp.Approval = approvalOf(&e.Approval)
	}
	return resp
}
