package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// memory is an engine that repeats messages, with deterministic responses.
type memory struct {
	openparallaxv1.UnimplementedClientServiceServer

	mu       sync.Mutex
	sessions []*openparallaxv1.SessionInfo
	messages map[string][]*openparallaxv1.ChatMessage
}

// serveMemory serves one, with an agent, sub-agents and a Shield without knowledge. It returns its address.
func serveMemory(t *testing.T) string {
	t.Helper()
	return gatewaytest.Serve(t, func(g *grpc.Server) {
		openparallaxv1.RegisterClientServiceServer(g, &memory{messages: map[string][]*openparallaxv1.ChatMessage{}})
		openparallaxv1.RegisterAgentServiceServer(g, openparallaxv1.UnimplementedAgentServiceServer{})
		openparallaxv1.RegisterSubAgentServiceServer(g, openparallaxv1.UnimplementedSubAgentServiceServer{})
		openparallaxv1.RegisterShieldServiceServer(g, openparallaxv1.UnimplementedShieldServiceServer{})
	}).Addr
}

func (m *memory) SendMessage(req *openparallaxv1.ClientMessageRequest,
	stream grpc.ServerStreamingServer[openparallaxv1.PipelineEvent]) error {
	session := req.GetSessionId()
	if session == "" {
		session = "new"
	}
	m.mu.Lock()
	if len(m.messages[session]) == 0 {
		m.sessions = append(m.sessions, &openparallaxv1.SessionInfo{Id: session, Mode: req.GetMode(), CreatedAt: 1,
			Title: req.GetContent()})
	}
	id := fmt.Sprint(len(m.messages[session]))
	m.messages[session] = append(m.messages[session], &openparallaxv1.ChatMessage{Id: id, SessionId: session,
		Role: "user", Content: req.GetContent(), Timestamp: 1})
	m.mu.Unlock()
	if req.GetContent() == "ask" {
		if err := stream.Send(&openparallaxv1.PipelineEvent{
			SessionId: session, MessageId: id, EventType: openparallaxv1.PipelineEventType_APPROVAL_NEEDED,
			ApprovalNeeded: &openparallaxv1.ApprovalNeeded{ApprovalId: "of-" + session, TimeoutAt: math.MaxInt32},
		}); err != nil {
			return err
		}
	}
	return stream.Send(&openparallaxv1.PipelineEvent{
		SessionId: session, MessageId: id, EventType: openparallaxv1.PipelineEventType_RESPONSE_COMPLETE,
		ResponseComplete: &openparallaxv1.ResponseComplete{Content: req.GetContent()},
	})
}

func (m *memory) ResolveApproval(context.Context, *openparallaxv1.ApprovalResponse) (*openparallaxv1.ApprovalAck,
	error) {
	return nil, status.Error(codes.Unknown, "no request was sent")
}

func (m *memory) GetStatus(context.Context, *openparallaxv1.StatusRequest) (*openparallaxv1.StatusResponse, error) {
	return &openparallaxv1.StatusResponse{AgentName: "Mnemosyne"}, nil
}

func (m *memory) ListSessions(context.Context,
	*openparallaxv1.ListSessionsRequest) (*openparallaxv1.ListSessionsResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &openparallaxv1.ListSessionsResponse{Sessions: slices.Clone(m.sessions)}, nil
}

func (m *memory) GetHistory(_ context.Context,
	req *openparallaxv1.GetHistoryRequest) (*openparallaxv1.GetHistoryResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &openparallaxv1.GetHistoryResponse{Messages: slices.Clone(m.messages[req.GetSessionId()])}, nil
}

// ofEngine calls an engine's method once; the last response is compared.
func (s *stranger) ofEngine(engine, method string, req, resp proto.Message) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), check.Patience)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.key, "x-capability-id", engine)
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	check.Must(s.t, err)
	if err := stream.SendMsg(req); err == nil {
		_ = stream.CloseSend()
	}
	for {
		if err := stream.RecvMsg(resp); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestEnginesOfOtherTenants: engines of other tenants do not exist for any method; tenants that share an engine have
// separate sessions and questions; a method needs its scope.
func TestEnginesOfOtherTenants(t *testing.T) {
	t.Parallel()
	lines := ""
	tenant := func(id, grants, scopes string) (key string) {
		key, entry := makeKey(t)
		lines += fmt.Sprintf("  - {id: %s, capabilities: [%s], keys: [%s, scopes: [%s]}]}\n", id, grants,
			strings.TrimSuffix(entry, "}"), scopes)
		return key
	}
	const all = "engine.chat, engine.agent, engine.subagent, engine.admin, engine.shield"
	acmes, globexs, others := tenant("acme", "shared, hidden", all), tenant("globex", "shared", all),
		tenant("other", "shared", "invoke, read, approve, policy, admin")
	fleets := ""
	for _, id := range []string{"shared", "hidden"} {
		fleets += fmt.Sprintf("  - {capability: %s, protocol: openparallax, backends: ['%s']}\n", id, serveMemory(t))
	}
	file := writeConfig(t,
		"listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\noverload: {max_delay: 10s}\ntenants:\n"+lines+"fleets:\n"+fleets)
	_, public, admin := serve(t, nil, "--config", file)
	waitPage(t, "http://"+admin+"/readyz", `"ready":true`)
	acme, globex, other := newStranger(t, "acme", acmes, public), newStranger(t, "globex", globexs, public),
		newStranger(t, "other", others, public)

	for _, file := range []protoreflect.FileDescriptor{openparallaxv1.File_openparallax_v1_pipeline_proto,
		openparallaxv1.File_openparallax_v1_shield_proto} {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				m := file.Services().Get(i).Methods().Get(j)
				path := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
				try := func(s *stranger, engine string) string {
					err := s.ofEngine(engine, path, dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output()))
					return strings.ReplaceAll(describeStatus(err), engine, "ENGINE")
				}
				hidden, absent := try(globex, "hidden"), try(globex, "absent")
				if hidden != absent || !strings.HasSuffix(hidden, " (CAPABILITY_UNKNOWN)") {
					t.Errorf("%s of another tenant's engine: %s; of none: %s", path, hidden, absent)
				}
				for _, engine := range []string{"shared", "hidden", "absent"} {
					if got := try(other, engine); !strings.HasSuffix(got, " (SCOPE_MISSING)") {
						t.Errorf("%s of %s without a scope: %s", path, engine, got)
					}
				}
			}
		}
	}

	const send, history, resolve, list = openparallaxv1.ClientService_SendMessage_FullMethodName,
		openparallaxv1.ClientService_GetHistory_FullMethodName,
		openparallaxv1.ClientService_ResolveApproval_FullMethodName,
		openparallaxv1.ClientService_ListSessions_FullMethodName
	event, sessions := new(openparallaxv1.PipelineEvent), new(openparallaxv1.ListSessionsResponse)
	check.Must(t, acme.ofEngine("shared", send, &openparallaxv1.ClientMessageRequest{SessionId: "acmes", Content: "ask",
		Mode: openparallaxv1.SessionMode_NORMAL}, event))
	check.Must(t, globex.ofEngine("shared", send,
		&openparallaxv1.ClientMessageRequest{SessionId: "globexs", Content: "hello",
			Mode: openparallaxv1.SessionMode_NORMAL}, event))
	for _, session := range []string{"acmes", "absent"} {
		for _, c := range []struct {
			method string
			req    proto.Message
			reason string
		}{
			{history, &openparallaxv1.GetHistoryRequest{SessionId: session}, "ENGINE_SESSION_UNKNOWN"},
			{resolve, &openparallaxv1.ApprovalResponse{ApprovalId: "of-" + session, SessionId: session, Approved: true},
				"ENGINE_APPROVAL_UNKNOWN"},
			{resolve, &openparallaxv1.ApprovalResponse{ApprovalId: "of-" + session}, "ENGINE_APPROVAL_UNKNOWN"},
		} {
			if err := globex.ofEngine("shared", c.method, c.req, event); status.Code(err) != codes.NotFound ||
				!strings.HasSuffix(describeStatus(err), "("+c.reason+")") {
				t.Errorf("%s of %s: %v", c.method, session, err)
			}
		}
	}
	if err := globex.ofEngine("shared", send, &openparallaxv1.ClientMessageRequest{SessionId: "acmes", Content: "hello",
		Mode: openparallaxv1.SessionMode_NORMAL}, event); status.Code(err) != codes.NotFound {
		t.Errorf("a message into another's session: %v", err)
	}
	check.Must(t, globex.ofEngine("shared", list, &openparallaxv1.ListSessionsRequest{}, sessions))
	if len(sessions.GetSessions()) != 1 || sessions.GetSessions()[0].GetId() != "globexs" {
		t.Errorf("globex sees %v", sessions)
	}
	check.Must(t, acme.ofEngine("shared", resolve, &openparallaxv1.ApprovalResponse{ApprovalId: "of-acmes",
		SessionId: "acmes"}, new(openparallaxv1.ApprovalAck)))
}
