package owncalls

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	standard = 20          // calls of a response
	most     = 100         // calls of a response, at the request of the caller
	fresh    = time.Second // for which a list of calls serves all callers
)

// Log has the recent calls of all callers, the newest first.
type Log interface {
	On() bool
	Calls(ctx context.Context) (calls []recent.Call, partial bool)
}

// Server implements capgate.v1.OwnCalls.
type Server struct {
	capgatepb.UnimplementedOwnCallsServer
	log  Log
	now  func() time.Time
	turn chan struct{} // capacity 1: held by the request that reads or uses the list
	last list
}

// list is the list of calls that serves all callers for a while.
type list struct {
	calls   []recent.Call
	partial bool
	read    time.Time
}

// New returns a Server. If now is nil, it uses the system clock.
func New(log Log, now func() time.Time) *Server {
	if now == nil {
		now = time.Now
	}
	return &Server{log: log, now: now, turn: make(chan struct{}, 1)}
}

// ListOwnCalls implements capgatepb.OwnCallsServer.
func (s *Server) ListOwnCalls(ctx context.Context, req *capgatepb.ListOwnCallsRequest) (
	*capgatepb.ListOwnCallsResponse, error) {
	caller, err := tenant.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	switch {
	case !s.log.On():
		return nil, status.Answer(refusedOff).Err()
	case size < 0 || size > most:
		return nil, status.Answer(call.InvalidField("CALLS_INVALID", "page_size", "it must be from 0 to 100")).Err()
	}
	all, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	resp := &capgatepb.ListOwnCallsResponse{Partial: all.partial}
	owner := ownerOf(&caller)
	for i := range all.calls {
		if len(resp.GetCalls()) == cmp.Or(size, standard) {
			break
		}
		if owner.has(&all.calls[i]) {
			resp.Calls = append(resp.Calls, message(&all.calls[i]))
		}
	}
	return resp, nil
}

var refusedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "CALLS_OFF",
	Message: "recent calls are off: calls.keep is 0 in the configuration"}

// read returns a list that is fresh. One request at a time reads it from the log.
func (s *Server) read(ctx context.Context) (list, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return list{}, ctx.Err()
	}
	defer func() { <-s.turn }()
	if now := s.now(); s.last.read.IsZero() || now.Sub(s.last.read) >= fresh {
		// The list is for all callers, so one that goes away does not end its reading, which the store bounds.
		s.last.calls, s.last.partial = s.log.Calls(context.WithoutCancel(ctx))
		s.last.read = now
	}
	return s.last, nil
}

func message(c *recent.Call) *capgatepb.OwnCall {
	return &capgatepb.OwnCall{
		RequestId: c.RequestID, Time: timestamppb.New(c.Ended), User: c.User, Agent: c.Agent, Capability: c.Capability,
		Tool: c.Tool, Method: c.Method, Code: c.Code, Reason: c.Reason, Outcome: c.Outcome,
		Duration: durationpb.New(c.Took), Attempts: int32(min(max(c.Attempts, 0), 1000)), ApprovalId: c.Approval,
		Replayed: c.Replayed, TraceId: c.Trace,
	}
}
