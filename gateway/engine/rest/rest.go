// Package rest has the JSON routes of OpenParallax engines (proto/capgate/v1/engines.proto), added to
// gateway/frontdoor/rest.
//
//	rest.go      status, sessions, history, approvals
//	messages.go  messages, answered with a stream of events
package rest

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// engines implements capgate.v1.Engines for decoded requests. It is only called in the process.
type engines struct {
	capgatepb.UnimplementedEnginesServer
	clients openparallaxv1.ClientServiceClient
}

// Routes adds the routes of engines.
func Routes(to *rest.Routes) error {
	e := &engines{clients: openparallaxv1.NewClientServiceClient(to.Conn)}
	to.Needed("engine", "session_id")
	if err := capgatepb.RegisterEnginesHandlerServer(context.Background(), to.Mux, e); err != nil {
		return fmt.Errorf("register the routes of capgate.v1.Engines: %w", err)
	}
	return to.Stream("/v1/engines/{engine=*}/messages", e.sendMessage)
}

// bySource declares that the gateway's protos number the modes of sessions.
func bySource(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, engine.ModesHeader, engine.BySource.String())
}

// ask calls an engine.
func ask[Q, A any](ctx context.Context, id string,
	method func(context.Context, *Q, ...grpc.CallOption) (*A, error), req *Q) (*A, error) {
	made, _ := metadata.FromIncomingContext(ctx)
	ctx, err := rest.Outgoing(ctx, made, id)
	if err != nil {
		return nil, err
	}
	return method(bySource(ctx), req, grpc.MaxCallRecvMsgSize(rest.MaxReply))
}

// GetEngineStatus implements capgatepb.EnginesServer.
func (e *engines) GetEngineStatus(ctx context.Context,
	req *capgatepb.GetEngineStatusRequest) (*capgatepb.GetEngineStatusResponse, error) {
	s, err := ask(ctx, req.GetEngine(), e.clients.GetStatus, &openparallaxv1.StatusRequest{})
	if err != nil {
		return nil, err
	}
	return &capgatepb.GetEngineStatusResponse{
		AgentName: s.GetAgentName(), Model: s.GetModel(), ShieldConnected: s.GetShieldConnected(),
		ShieldMaxTier: s.GetShieldMaxTier(),
		UptimeSeconds: uint32(min(max(s.GetUptimeSeconds(), 0), math.MaxUint32)), SessionCount: s.GetSessionCount(),
		ActionsToday: s.GetActionsToday(),
	}, nil
}

// ListEngineSessions implements capgatepb.EnginesServer. It requests all sessions, because not every engine
// applies a limit.
func (e *engines) ListEngineSessions(ctx context.Context,
	req *capgatepb.ListEngineSessionsRequest) (*capgatepb.ListEngineSessionsResponse, error) {
	all, err := ask(ctx, req.GetEngine(), e.clients.ListSessions,
		&openparallaxv1.ListSessionsRequest{Limit: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	sessions, next, err := rest.Page(req, all.GetSessions())
	if err != nil {
		return nil, err
	}
	resp := &capgatepb.ListEngineSessionsResponse{NextPageToken: next}
	for _, s := range sessions {
		resp.Sessions = append(resp.Sessions, &capgatepb.EngineSession{
			Id: s.GetId(), Title: s.GetTitle(), Mode: nameOf(s.GetMode()), CreateTime: since1970(s.GetCreatedAt()),
			UpdateTime:   since1970(s.GetUpdatedAt()),
			MessageCount: s.GetMessageCount(),
		})
	}
	return resp, nil
}

// ListEngineHistory implements capgatepb.EnginesServer.
func (e *engines) ListEngineHistory(ctx context.Context,
	req *capgatepb.ListEngineHistoryRequest) (*capgatepb.ListEngineHistoryResponse, error) {
	all, err := ask(ctx, req.GetEngine(), e.clients.GetHistory,
		&openparallaxv1.GetHistoryRequest{SessionId: req.GetSessionId(), Limit: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	messages, next, err := rest.Page(req, all.GetMessages())
	if err != nil {
		return nil, err
	}
	resp := &capgatepb.ListEngineHistoryResponse{NextPageToken: next}
	for _, m := range messages {
		resp.Messages = append(resp.Messages, &capgatepb.EngineMessage{
			Id: m.GetId(), SessionId: m.GetSessionId(), Role: m.GetRole(), Content: m.GetContent(),
			CreateTime: since1970(m.GetTimestamp()),
		})
	}
	return resp, nil
}

// ApproveEngineAction implements capgatepb.EnginesServer.
func (e *engines) ApproveEngineAction(ctx context.Context,
	req *capgatepb.ApproveEngineActionRequest) (*capgatepb.ApproveEngineActionResponse, error) {
	ack, err := ask(ctx, req.GetEngine(), e.clients.ResolveApproval,
		&openparallaxv1.ApprovalResponse{ApprovalId: req.GetApprovalId(), SessionId: req.GetSessionId(),
			Approved: true})
	return &capgatepb.ApproveEngineActionResponse{Received: ack.GetReceived()}, err
}

// DenyEngineAction implements capgatepb.EnginesServer.
func (e *engines) DenyEngineAction(ctx context.Context,
	req *capgatepb.DenyEngineActionRequest) (*capgatepb.DenyEngineActionResponse, error) {
	ack, err := ask(ctx, req.GetEngine(), e.clients.ResolveApproval,
		&openparallaxv1.ApprovalResponse{ApprovalId: req.GetApprovalId(), SessionId: req.GetSessionId()})
	return &capgatepb.DenyEngineActionResponse{Received: ack.GetReceived()}, err
}

// nameOf returns a mode's name; empty if it is unset or unknown.
func nameOf(m openparallaxv1.SessionMode) string {
	if m == openparallaxv1.SessionMode_SESSION_MODE_UNSPECIFIED {
		return ""
	}
	return openparallaxv1.SessionMode_name[int32(m)]
}

// since1970 converts an engine's time in seconds; nil if it is unset.
func since1970(seconds int64) *timestamppb.Timestamp {
	t := timestamppb.New(time.Unix(seconds, 0))
	if seconds == 0 || !t.IsValid() {
		return nil
	}
	return t
}
