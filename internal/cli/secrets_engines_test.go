package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// toEngines are the secrets that an engine receives unchanged.
var toEngines = []string{
	"message to an engine", "message to an engine over JSON", "message of the program", "arguments at an engine",
	"arguments at an engine, answered over JSON",
	"agent's token", "wrong token of an agent", "memory of an agent", "what an agent cannot do", "sub-agent's token",
	"wrong token of a sub-agent", "sub-agent's task", "sub-agent's arguments",
	"sub-agent's failure", "token for sub-agent's task", "token for sub-agent's arguments",
	"token for sub-agent's failure", "arguments for an engine's Shield",
}

// overheard records what an engine receives.
type overheard struct{ *canaries }

func (o overheard) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InHeader:
		o.scan("engine", fmt.Sprint(s.FullMethod, s.Header))
	case *stats.InPayload:
		o.scan("engine", fmt.Sprint(s.Payload))
	}
}

func (o overheard) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (o overheard) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (o overheard) HandleConn(context.Context, stats.ConnStats)                       {}

// serveEngines runs an engine whose sub-agents spawned starts, and one that discloses secrets when it fails.
func (g *secretive) serveEngines(t *testing.T) (fleets []string) {
	t.Helper()
	g.spawned = make(chan string, 1)
	e := engine.New(engine.Config{ApprovalIDs: true, Token: g.plant("agent's token"), Spawn: func(token string) {
		g.spawned <- token
	}})
	addr := gatewaytest.Serve(t, e.Register, grpc.StatsHandler(overheard{g.canaries})).Addr
	failure := g.plant("failure of an engine")
	failing := gatewaytest.Serve(t, func(*grpc.Server) {}, grpc.UnknownServiceHandler(func(_ any,
		s grpc.ServerStream) error {
		switch method, _ := grpc.Method(s.Context()); method {
		case openparallaxv1.ClientService_GetStatus_FullMethodName:
			return s.SendMsg(&openparallaxv1.StatusResponse{}) // it is healthy
		case openparallaxv1.ClientService_ListSessions_FullMethodName:
			return s.SendMsg(&openparallaxv1.ListSessionsResponse{})
		case openparallaxv1.ClientService_GetHistory_FullMethodName:
			return s.SendMsg(&openparallaxv1.GetHistoryResponse{})
		case openparallaxv1.ClientService_SendMessage_FullMethodName:
			if err := s.SendMsg(&openparallaxv1.PipelineEvent{SessionId: "broken",
				LlmToken: &openparallaxv1.LLMToken{Text: failure}}); err != nil {
				return err
			}
		}
		return status.Error(codes.Internal, failure)
	})).Addr
	return []string{
		"- {capability: engine-1, protocol: openparallax, backends: ['" + addr + "']}",
		"- {capability: engine-2, protocol: openparallax, backends: ['" + failing + "']}",
	}
}

// keyed returns metadata with a key for every call.
type keyed struct {
	grpc.ClientConnInterface
	header []string
}

func (k keyed) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	return k.ClientConnInterface.Invoke(metadata.AppendToOutgoingContext(ctx, k.header...), method, req, resp, opts...)
}

func (k keyed) NewStream(ctx context.Context, d *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return k.ClientConnInterface.NewStream(metadata.AppendToOutgoingContext(ctx, k.header...), d, method, opts...)
}

// talk makes the calls of clients, an agent and its sub-agents to an engine.
func (g *secretive) talk(t *testing.T) {
	t.Helper()
	conn := connectTo(t, g.public)
	defer conn.Close()
	first := keyed{conn, []string{"x-api-key", g.key, "x-capability-id", "engine-1"}}
	clients, subs := openparallaxv1.NewClientServiceClient(first), openparallaxv1.NewSubAgentServiceClient(first)
	answer := func(id string) {
		_, err := clients.ResolveApproval(t.Context(), &openparallaxv1.ApprovalResponse{ApprovalId: id, SessionId: "s",
			Approved: true})
		check.Must(t, err)
	}
	say := func(content string) {
		t.Helper()
		stream, err := clients.SendMessage(t.Context(), &openparallaxv1.ClientMessageRequest{SessionId: "s",
			Content: content, Mode: openparallaxv1.SessionMode_NORMAL})
		check.Must(t, err)
		g.hear(t, stream, answer)
	}
	end := g.attend(t, first)
	defer end()
	say("hello " + g.plant("message to an engine"))
	say("remember: " + g.plant("memory of an agent"))
	say("flood: " + g.plant("what an agent cannot do"))
	say(fmt.Sprintf(`tool: execute_command {"command":"ls","password":%q}`, g.plant("arguments at an engine")))
	g.talkJSON(t)
	answer = func(id string) {
		code, _, text := g.fetch(t, g.client(t, nil), http.MethodPost,
			"https://"+g.public+"/v1/engines/engine-1/approvals/"+id+"/deny", "{}", "x-api-key", g.key)
		if code != http.StatusOK {
			t.Errorf("got %d %s", code, text)
		}
	}
	say(fmt.Sprintf(`tool: execute_command {"command":"ls","password":%q}`,
		g.plant("arguments at an engine, answered over JSON")))
	for door, task := range map[string]string{"sub-agent's task": "%s",
		"sub-agent's arguments": `tool: read_file {"path":%q}`, "sub-agent's failure": "fail: %s"} {
		worked := g.work(t, first, door)
		say("delegate: " + fmt.Sprintf(task, g.plant(door)))
		worked()
	}
	_, err := subs.RegisterSubAgent(t.Context(),
		&openparallaxv1.SubAgentRegisterRequest{Token: g.plant("wrong token of a sub-agent")})
	g.answered(err)
	_, err = openparallaxv1.NewShieldServiceClient(first).Evaluate(t.Context(),
		&openparallaxv1.EvaluateRequest{ActionType: "read_file",
			PayloadJson: g.plant("arguments for an engine's Shield")})
	check.Must(t, err)
	odd := metadata.AppendToOutgoingContext(t.Context(), "x-session-modes", g.plant("numbers of modes"))
	_, err = clients.ListSessions(odd, &openparallaxv1.ListSessionsRequest{})
	if status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	g.answered(err)
	g.talkToFailing(t, keyed{conn, []string{"x-api-key", g.key, "x-capability-id", "engine-2"}})
}

// hear receives an answer. Operators see its questions before they are answered.
func (g *secretive) hear(t *testing.T, stream openparallaxv1.ClientService_SendMessageClient, answer func(id string)) {
	t.Helper()
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		check.Must(t, err)
		if asked := event.GetApprovalNeeded(); asked != nil {
			g.lookAtApprovals(t)
			answer(asked.GetApprovalId())
		}
	}
}

// lookAtApprovals reads approvals while one is pending.
func (g *secretive) lookAtApprovals(t *testing.T) {
	t.Helper()
	_, text := page(t, "http://"+g.admin+"/v1/approvals?state=pending&tenant=acme")
	if !strings.Contains(text, "engine-1") {
		t.Errorf("operators do not see the question: %s", text)
	}
	g.scan("operators' pages", text)
	_, _, text = g.fetch(t, g.client(t, nil), http.MethodGet, "https://"+g.public+"/v1/approvals", "", "x-api-key",
		g.key)
	g.scan("JSON", text)
	_, stdout, stderr := runProgram(t, nil, "approvals", "--admin", g.admin, "--tenant", "acme", "list")
	g.scan("capgate approvals", stdout+stderr)
}

// attend connects an agent until end is called, and one that is rejected.
func (g *secretive) attend(t *testing.T, conn grpc.ClientConnInterface) (end func()) {
	t.Helper()
	if err := agent.Run(check.Context(t), conn, agent.Config{Token: g.plant("wrong token of an agent")}); err == nil {
		t.Error("the engine accepted an agent with a wrong token")
	} else {
		g.answered(errors.Unwrap(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	cfg := agent.Config{Token: g.secretOf("agent's token"), Ready: func() { close(ready) }}
	go func() {
		err := agent.Run(ctx, conn, cfg)
		for strings.Contains(fmt.Sprint(err), "AlreadyExists") { // the previous one
			err = agent.Run(ctx, conn, cfg)
		}
		ended <- err
	}()
	check.Received(t, ready, "the agent to be connected")
	return func() {
		cancel()
		check.Must(t, check.Received(t, ended, "the end of the agent"))
	}
}

// work runs the next sub-agent as instructed, and another that uses its token again.
func (g *secretive) work(t *testing.T, conn grpc.ClientConnInterface, door string) (done func()) {
	t.Helper()
	ended := make(chan error, 1)
	ctx := check.Context(t)
	go func() {
		token := <-g.spawned
		g.plantAs("token for "+door, token)
		err := agent.RunSub(ctx, conn, token)
		g.answered(errors.Unwrap(agent.RunSub(ctx, conn, token)))
		ended <- err
	}()
	return func() { check.Must(t, check.Received(t, ended, "the end of the sub-agent")) }
}

// talkJSON makes calls over JSON, and with the program.
func (g *secretive) talkJSON(t *testing.T) {
	t.Helper()
	client, base := g.client(t, nil), "https://"+g.public+"/v1/engines/"
	header := []string{"x-api-key", g.key, "content-type", "application/json", "accept", "application/x-ndjson"}
	query := "?token=" + g.plant("query of engines")
	code, _, text := g.fetch(t, client, http.MethodPost, base+"engine-1/messages"+query,
		fmt.Sprintf(`{"session_id":"s","content":%q}`, g.plant("message to an engine over JSON")), header...)
	if code != http.StatusOK || !strings.Contains(text, "response_complete") {
		t.Errorf("got %d %s", code, text)
	}
	_, stdout, stderr := runProgram(t, []string{"CAPGATE_KEY=" + g.key}, "engines", "--addr",
		strings.Replace(g.public, "127.0.0.1", "localhost", 1), "--tls-ca", g.cert, "send", "engine-1",
		g.plant("message of the program"))
	g.scan("capgate engines send", stdout+stderr)
	for _, bad := range []string{`{"content":%q`, `{"content":"x","engine":%q}`, `{"content":"x","password":%q}`,
		`%q`} {
		for _, engine := range []string{"engine-1", "absent", "caps"} {
			code, header, text := g.fetch(t, client, http.MethodPost, base+engine+"/messages"+query,
				fmt.Sprintf(bad, g.secretOf("bad message over JSON")), header...)
			if code == http.StatusOK {
				t.Errorf("%s is accepted", bad)
			}
			g.scan("JSON of engines", fmt.Sprintf("%d %v %s", code, header, text))
		}
	}
	for _, target := range []string{"absent/status", "engine-1/sessions/absent/history", "caps/sessions"} {
		code, header, text := g.fetch(t, client, http.MethodGet, base+target+query, "", header...)
		g.scan("JSON of engines", fmt.Sprintf("%d %v %s", code, header, text))
	}
}

// talkToFailing calls an engine that breaks off.
func (g *secretive) talkToFailing(t *testing.T, conn grpc.ClientConnInterface) {
	t.Helper()
	clients := openparallaxv1.NewClientServiceClient(conn)
	_, err := openparallaxv1.NewSubAgentServiceClient(conn).RegisterSubAgent(t.Context(),
		&openparallaxv1.SubAgentRegisterRequest{})
	if status.Code(err) != codes.Internal {
		t.Error(err)
	}
	stream, err := clients.SendMessage(t.Context(), &openparallaxv1.ClientMessageRequest{SessionId: "s",
		Content: "hello", Mode: openparallaxv1.SessionMode_NORMAL})
	check.Must(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DataLoss {
		t.Error(err)
	}
	g.answered(err)
}
