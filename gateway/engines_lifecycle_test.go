package gateway_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// allOfEngine returns the services of an engine. Its clients name nothing else.
func allOfEngine() []string {
	return []string{
		parallaxpb.AgentService_ServiceDesc.ServiceName, parallaxpb.ClientService_ServiceDesc.ServiceName,
		parallaxpb.SubAgentService_ServiceDesc.ServiceName, parallaxpb.ShieldService_ServiceDesc.ServiceName,
	}
}

// behind returns a gateway before an engine that the test serves.
func behind(t *testing.T, addr string, settings *guard.Settings, change ...func(*gatewaytest.Options)) *engines {
	t.Helper()
	if settings.Buffer == 0 {
		settings.Buffer = 4 << 20
	}
	shared, approver := shareEngines(t, nil)
	e := &engines{addr: addr, approver: approver, agent: make(chan error, 1)}
	o := gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "engine-1", Services: allOfEngine(), Backends: []string{addr},
			Protocol: settings, Unprobed: true}},
		Engines: shared,
	}
	for _, c := range change {
		c(&o)
	}
	e.gateway = gatewaytest.Start(t, o)
	e.client = parallaxpb.NewClientServiceClient(e.gateway.Conn(t))
	return e
}

// workers run sub-agents through a gateway, once there is one.
type workers struct {
	tokens  chan string
	working sync.WaitGroup
}

// start runs sub-agents until stopped ends. A sub-agent that runs then still finishes, unless ctx ends.
func (w *workers) start(ctx, stopped context.Context, t *testing.T, conn grpc.ClientConnInterface) {
	w.working.Go(func() {
		for {
			select {
			case token := <-w.tokens:
				if err := agent.RunSub(ctx, conn, token); err != nil {
					t.Errorf("sub-agent: %v", err)
				}
				if err := agent.RunSub(ctx, conn, token); err == nil {
					t.Error("a token was accepted twice")
				}
			case <-stopped.Done():
				return
			}
		}
	})
}

// kinds returns the types of the events; consecutive tokens count once.
func kinds(events []*parallaxpb.PipelineEvent) (kinds []string) {
	for _, e := range events {
		kinds = append(kinds, e.GetEventType().String())
	}
	return slices.Compact(kinds)
}

// TestLifecycleOfAnEngine: from the agent's connection to its end, with two clients and a sub-agent that are
// unaware of the gateway.
func TestLifecycleOfAnEngine(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	const secret = "only-engine-and-agent-know"
	helpers := workers{tokens: make(chan string, 10)}
	var tokens []string
	addr := serveEngine(t, engine.Config{Token: secret, Spawn: func(token string) {
		tokens = append(tokens, token)
		helpers.tokens <- token
	}})
	e := behind(t, addr, &guard.Settings{Queue: 100, Shutdown: true})
	e.attend(t, agent.Config{Token: secret})
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	helpers.start(ctx, working, t, e.gateway.Conn(t))
	defer func() { check.Ended(t, &helpers.working, "the end of the sub-agents") }()
	defer stop()
	other := parallaxpb.NewClientServiceClient(e.gateway.Conn(t))

	for _, step := range []struct {
		client           parallaxpb.ClientServiceClient
		session, content string
		want             []string
		answer           string
	}{
		{e.client, "one", "hello there", []string{"LLM_TOKEN", "RESPONSE_COMPLETE"}, "You said: hello there"},
		{other, "two", `tool: read_file {"path":"a"}`, []string{"ACTION_STARTED", "SHIELD_VERDICT", "ACTION_COMPLETED",
			"LLM_TOKEN", "RESPONSE_COMPLETE"}, "what a says"},
		{e.client, "one", "load: shell", []string{"LLM_TOKEN", "RESPONSE_COMPLETE"}, "execute_command"},
		{other, "two", "fail", []string{"ERROR"}, ""},
		{other, "two", `tool: delete_file {"path":"a"}`, []string{"ACTION_STARTED", "SHIELD_VERDICT",
			"ACTION_COMPLETED", "LLM_TOKEN", "RESPONSE_COMPLETE"},
			"Blocked by security: actions of this type are not done here"},
		{e.client, "one", "delegate: sums", []string{"ACTION_STARTED", "SHIELD_VERDICT", "SUB_AGENT_SPAWNED",
			"ACTION_COMPLETED", "ACTION_STARTED", "SHIELD_VERDICT", "SUB_AGENT_COMPLETED", "ACTION_COMPLETED",
			"LLM_TOKEN", "RESPONSE_COMPLETE"}, "did sums"},
	} {
		stream, err := step.client.SendMessage(ctx, &parallaxpb.ClientMessageRequest{SessionId: step.session,
			Content: step.content, Mode: parallaxpb.SessionMode_NORMAL})
		check.Must(t, err)
		events, err := receiveAll(stream)
		if err != nil || len(events) == 0 {
			t.Fatalf("%s: %v, %v", step.content, events, err)
		}
		got := kinds(events)
		if strings.HasPrefix(step.content, "delegate") { // the sub-agent may finish at any time
			got, step.want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(step.want))
		}
		if answer := events[len(events)-1].GetResponseComplete().GetContent(); !slices.Equal(got, step.want) ||
			answer != step.answer {
			t.Errorf("%s: %v, %q", step.content, got, answer)
		}
	}
	if reply, err := e.client.Shutdown(ctx, &parallaxpb.ShutdownRequest{}); err != nil || !reply.GetClean() {
		t.Errorf("got %v, %v", reply, err)
	}
	if err := check.Received(t, e.agent, "the agent to stop"); err != nil {
		t.Errorf("the agent got no end of its stream: %v", err)
	}
	log := e.gateway.Log.String()
	for _, s := range append(tokens, secret) {
		if strings.Contains(log, s) {
			t.Errorf("the log has %s", s)
		}
	}
	if len(tokens) != 1 {
		t.Errorf("%d sub-agents", len(tokens))
	}
}

// TestEngineKilledWhileItAnswers: the error tells the client where to look, and the next message reaches the
// engine once it is back.
func TestEngineKilledWhileItAnswers(t *testing.T) {
	t.Parallel()
	own := engine.New(engine.Config{})
	killed := gatewaytest.Serve(t, own.Register)
	e := behind(t, killed.Addr, &guard.Settings{Queue: 100})
	thinking := make(chan struct{})
	e.attend(t, agent.Config{Think: func(ctx context.Context, _ *parallaxpb.ProcessRequest) {
		close(thinking)
		<-ctx.Done()
	}})
	stream, err := e.client.SendMessage(patient(t), &parallaxpb.ClientMessageRequest{SessionId: "s", Content: "hello",
		Mode: parallaxpb.SessionMode_NORMAL})
	check.Must(t, err)
	check.Received(t, thinking, "the agent to think")
	killed.Stop()
	_, err = receiveAll(stream)
	details := wants(t, err, codes.DataLoss, "ENGINE_STREAM_LOST").GetMetadata()
	checkProgress(t, err, false)
	if details["recover"] != "openparallax.v1.ClientService/GetHistory" || details["session"] != "s" {
		t.Errorf("the client got %v", details)
	}
	if n := e.gateway.Metrics(t)[`capgate_engine_cut_off_total{capability="engine-1",reason="stream_lost"}`]; n != 1 {
		t.Errorf("%v streams were lost", n)
	}
	if err := check.Received(t, e.agent, "the agent to stop"); err == nil {
		t.Error("the agent took the failure for a regular end")
	}

	back, ln := grpc.NewServer(), listenAt(t, killed.Addr)
	own.Register(back)
	go func() { _ = back.Serve(ln) }()
	check.Cleanup(t, back.Stop)
	for { // the gateway probes again after a while
		history, err := e.client.GetHistory(patient(t), &parallaxpb.GetHistoryRequest{SessionId: "s"})
		if err == nil {
			if said := history.GetMessages(); len(said) != 1 || said[0].GetContent() != "hello" {
				t.Errorf("got %v", said)
			}
			break
		}
		if status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
	}
	connected, conn := make(chan struct{}), e.gateway.Conn(t)
	ctx, stop := context.WithCancel(context.Background())
	check.Cleanup(t, stop)
	go func() { // as often as necessary: the lease of the previous agent may not be released yet
		for agent.Run(ctx, conn, agent.Config{Ready: func() { close(connected) }}) != nil {
			<-time.After(100 * time.Millisecond) // as a supervisor restarts agents
		}
	}()
	check.Received(t, connected, "the agent to be connected")
	if got, err := e.say(patient(t), "s", "again"); err != nil || got != "You said: again" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestAgentsAreReplaced: agents are replaced one after the other, and the engine has only the last one.
func TestAgentsAreReplaced(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100, LastWins: true}, engine.Config{})
	e.attend(t, agent.Config{})
	for range 3 {
		next := &engines{gateway: e.gateway, agent: make(chan error, 1)}
		next.attend(t, agent.Config{})
		if err := check.Received(t, e.agent, "the agent to stop"); err != nil {
			t.Errorf("the previous agent got no end of its stream: %v", err)
		}
		e.agent = next.agent
		if got, err := e.say(patient(t), "s", "hello"); err != nil || got != "You said: hello" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}
