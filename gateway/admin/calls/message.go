package calls

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// message returns the message of a call.
func (s *Service) message(c *recent.Call) *capgatepb.RecentCall {
	m := &capgatepb.RecentCall{
		Id: c.ID, RequestId: c.RequestID, Time: timestamppb.New(c.Ended), Replica: c.Replica, Listener: c.Listener,
		Tenant: c.Tenant, User: c.User, Agent: c.Agent, Key: c.Key, Capability: c.Capability, Tool: c.Tool,
		Method: c.Method, Protocol: c.Dialect, Code: c.Code, Reason: c.Reason, Failure: c.Failure, Outcome: c.Outcome,
		Duration: durationpb.New(c.Took), Backend: c.Backend, Attempts: int32(min(max(c.Attempts, 0), 1000)),
		BytesIn: c.BytesIn, BytesOut: c.BytesOut, TraceId: c.Trace, ApprovalId: c.Approval, Replayed: c.Replayed,
		LimitShadow: c.Shadowed,
	}
	if c.Traced && c.Trace != "" && s.Link != nil {
		m.TraceLink = s.Link(c.Trace)
	}
	if c.Verdict != "" {
		m.Policy = &capgatepb.RecentCall_Decision{Level: c.Level, Decision: c.Verdict, Candidate: c.Candidate}
	}
	return m
}
