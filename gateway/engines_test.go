package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// engines is an engine with its agent, both behind a gateway.
type engines struct {
	addr     string
	gateway  *gatewaytest.Gateway
	client   parallaxpb.ClientServiceClient
	approver *approvals.Service
	agent    chan error    // result of its program
	taken    chan struct{} // receives a value for each agent or stream that finds the engine's lease taken
}

// watchedTurns reports when a lease is already taken.
type watchedTurns struct {
	turns.Store
	taken chan<- struct{}
}

// Acquire implements turns.Store.
func (s watchedTurns) Acquire(ctx context.Context, r *turns.LeaseRequest) (bool, error) {
	mine, err := s.Store.Acquire(ctx, r)
	if err == nil && !mine {
		select {
		case s.taken <- struct{}{}:
		default:
		}
	}
	return mine, err
}

// shareEngines returns the state that gateways share of engines. taken receives a value when a lease is already
// taken.
func shareEngines(t *testing.T, taken chan<- struct{}) (guard.Shared, *approvals.Service) {
	t.Helper()
	store := gatewaytest.StartRedis(t).Open(t)
	approver, err := approvals.New(store.Approvals(), approvals.Options{})
	check.Must(t, err)
	all := turns.New(watchedTurns{store.EngineTurns(), taken}, turns.Options{Lease: time.Hour})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { approver.Run(ctx) })
	running.Go(func() { all.Run(ctx) })
	check.Cleanup(t, func() { all.Close(); stop(); check.Ended(t, &running, "the background work to end") })
	return guard.Shared{Turns: all, Sessions: store.EngineSessions(), Approvals: approver,
		Questions: store.EngineQuestions()}, approver
}

func serveEngine(t *testing.T, cfg engine.Config) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.New(cfg).Serve(ctx, ln) }()
	check.Cleanup(t, func() {
		stop()
		if err := check.Received(t, ended, "the end of the call"); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func startEngines(t *testing.T, settings *guard.Settings, cfg engine.Config,
	change ...func(*gatewaytest.Options)) *engines {
	t.Helper()
	e := &engines{addr: serveEngine(t, cfg), agent: make(chan error, 1), taken: make(chan struct{}, 1)}
	var shared guard.Shared
	shared, e.approver = shareEngines(t, e.taken)
	if settings.Buffer == 0 {
		settings.Buffer = 4 << 20
	}
	o := gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "engine-1", Services: []string{"openparallax.v1.ClientService",
			"openparallax.v1.AgentService"},
			Backends: []string{e.addr}, Protocol: settings, Unprobed: true}},
		Engines: shared,
	}
	for _, c := range change {
		c(&o)
	}
	e.gateway = gatewaytest.Start(t, o)
	e.client = parallaxpb.NewClientServiceClient(e.gateway.Conn(t))
	return e
}

// attend connects an agent through the gateway, and waits until the engine has it.
func (e *engines) attend(t *testing.T, cfg agent.Config) {
	t.Helper()
	ready, _ := e.startAgent(t, cfg)
	check.Received(t, ready, "the agent to be connected")
}

// startAgent starts an agent that connects through the gateway. ready is closed when the engine has it.
func (e *engines) startAgent(t *testing.T, cfg agent.Config) (ready <-chan struct{}, stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	check.Cleanup(t, stop)
	connected := make(chan struct{})
	cfg.Ready = func() { close(connected) }
	go func() { e.agent <- agent.Run(ctx, e.gateway.Conn(t), cfg) }()
	return connected, stop
}

func receiveAll(stream parallaxpb.ClientService_SendMessageClient) (events []*parallaxpb.PipelineEvent, err error) {
	for {
		event, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return events, err
		}
		events = append(events, event)
	}
}

func (e *engines) say(ctx context.Context, session, content string) (answer string, err error) {
	stream, err := e.client.SendMessage(ctx, &parallaxpb.ClientMessageRequest{SessionId: session, Content: content,
		Mode: parallaxpb.SessionMode_NORMAL})
	if err != nil {
		return "", err
	}
	events, err := receiveAll(stream)
	if err == nil && len(events) > 0 {
		answer = events[len(events)-1].GetResponseComplete().GetContent()
	}
	return answer, err
}

// TestMessagesOneAtATime: an engine gets one message at a time, however many clients it has.
func TestMessagesOneAtATime(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{})
	e.attend(t, agent.Config{})
	var saying sync.WaitGroup
	for i := range 20 {
		saying.Go(func() {
			want := fmt.Sprint("hello ", i)
			if got, err := e.say(patient(t), fmt.Sprint("s", i), want); err != nil || got != "You said: "+want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	check.Ended(t, &saying, "the end of the messages")
	list, err := e.client.ListSessions(patient(t), &parallaxpb.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) != 20 {
		t.Errorf("got %v, %v", list, err)
	}
	history, err := e.client.GetHistory(patient(t), &parallaxpb.GetHistoryRequest{SessionId: "s3"})
	if err != nil || len(history.GetMessages()) != 2 {
		t.Errorf("got %v, %v", history, err)
	}
	if status, err := e.client.GetStatus(patient(t), &parallaxpb.StatusRequest{}); err != nil ||
		status.GetAgentName() != "Atlas" {
		t.Errorf("%v, %v; status %+v", status, err, status)
	}
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	check.Cleanup(t, cancel)
	return ctx
}

// TestEnginesQuestions: an engine's questions become approvals, and the engine receives the answers.
func TestEnginesQuestions(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{ApprovalIDs: true})
	e.attend(t, agent.Config{})
	for _, approve := range []bool{true, false} {
		for _, direct := range []bool{true, false} {
			stream, err := e.client.SendMessage(patient(t), &parallaxpb.ClientMessageRequest{SessionId: "mine",
				Content: `tool: execute_command {"command":"ls","password":"hunter2"}`})
			check.Must(t, err)
			var asked *parallaxpb.ApprovalNeeded
			for asked == nil {
				event, err := stream.Recv()
				check.Must(t, err)
				asked = event.GetApprovalNeeded()
			}
			page, _, err := e.approver.List(t.Context(), "default", approvals.Filter{State: approvals.Pending}, "", 10)
			if err != nil || len(page) != 1 || page[0].Capability != "engine-1" || page[0].Session != "mine" {
				t.Fatalf("got %+v, %v", page, err)
			}
			if kept := fmt.Sprintf("%+v", page[0]); strings.Contains(kept, "hunter2") ||
				!strings.Contains(page[0].Preview, "command") {
				t.Errorf("the inbox shows: %s; page %+v", kept, page)
			}
			if d := page[0].Expires.Sub(time.Unix(asked.GetTimeoutAt(), 0)).Abs(); d > 2*time.Second {
				t.Errorf("expires %v from timeout_at", d)
			}
			if direct {
				ack, err := e.client.ResolveApproval(patient(t),
					&parallaxpb.ApprovalResponse{ApprovalId: asked.GetApprovalId(), Approved: approve})
				if err != nil || !ack.GetReceived() {
					t.Fatalf("got %v, %v", ack, err)
				}
				_, err = e.client.ResolveApproval(patient(t),
					&parallaxpb.ApprovalResponse{ApprovalId: asked.GetApprovalId(), Approved: !approve})
				if status.Code(err) != codes.FailedPrecondition {
					t.Errorf("again: %v", err)
				}
			} else {
				answer := e.approver.Deny
				if approve {
					answer = e.approver.Approve
				}
				if _, err := answer(t.Context(), "default", page[0].ID,
					approvals.Answer{By: "eve", Remember: approvals.Always}); err == nil {
					t.Error("an engine's question was answered permanently")
				}
				if _, err := answer(t.Context(), "default", page[0].ID, approvals.Answer{By: "eve"}); err != nil {
					t.Fatal(err)
				}
			}
			events, err := receiveAll(stream)
			check.Must(t, err)
			done := false
			for _, event := range events {
				done = done || event.GetActionCompleted().GetSuccess()
			}
			if done != approve {
				t.Errorf("approved %v, directly %v: %v", approve, direct, events)
			}
		}
	}
	_, err := e.client.ResolveApproval(patient(t), &parallaxpb.ApprovalResponse{ApprovalId: "unknown", Approved: true})
	if status.Code(err) != codes.NotFound {
		t.Errorf("unknown: %v", err)
	}
}

// TestSlowReadersOfEngines: slow readers lose their stream while the engine continues, and delay no other call.
func TestSlowReadersOfEngines(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100, Buffer: 64 << 10}, engine.Config{})
	e.attend(t, agent.Config{})
	conn, err := clienttest.NewConn("passthrough:///"+e.gateway.Addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	slow, err := parallaxpb.NewClientServiceClient(conn).SendMessage(patient(t),
		&parallaxpb.ClientMessageRequest{SessionId: "slow", Content: "flood: 1024"})
	check.Must(t, err)
	if _, err := slow.Recv(); err != nil { // it has the lease
		t.Fatal(err)
	}
	if got, err := e.say(patient(t), "other", "hello"); err != nil || got != "You said: hello" {
		t.Errorf("beside a slow reader: %q, %v", got, err)
	}
	_, err = receiveAll(slow)
	if status.Code(err) != codes.ResourceExhausted || errorInfo(err).GetReason() != "ENGINE_READER_SLOW" {
		t.Errorf("the slow reader: %v", err)
	}
	checkProgress(t, err, false)
	if n := e.gateway.Metrics(t)[`capgate_engine_cut_off_total{capability="engine-1",reason="reader_slow"}`]; n != 1 {
		t.Errorf("%v readers were too slow", n)
	}
	history, err := e.client.GetHistory(patient(t), &parallaxpb.GetHistoryRequest{SessionId: "slow"})
	if err != nil || len(history.GetMessages()) != 2 {
		t.Errorf("got %v, %v", history, err)
	}
}

// TestAgentsOfOneEngine: an engine has one agent at a time.
func TestAgentsOfOneEngine(t *testing.T) {
	t.Parallel()
	for _, last := range []bool{false, true} {
		e := startEngines(t, &guard.Settings{Queue: 100, LastWins: last}, engine.Config{})
		e.attend(t, agent.Config{})
		if last {
			second := &engines{gateway: e.gateway, agent: make(chan error, 1)}
			second.attend(t, agent.Config{})
			if err := check.Received(t, e.agent, "the agent to stop"); err != nil {
				t.Errorf("the first: %v", err) // it was ended by the gateway
			}
		} else if err := agent.Run(patient(t), e.gateway.Conn(t),
			agent.Config{}); status.Code(err) != codes.AlreadyExists || errorInfo(err).GetReason() !=
			"ENGINE_HAS_AGENT" {
			t.Errorf("the second: %v", err)
		}
		if got, err := e.say(patient(t), "s", "hello"); err != nil || got != "You said: hello" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// TestSuccessorOfAnAgent: an agent that connects before its predecessor's stream has ended, as after a quick
// restart, gets the engine.
func TestSuccessorOfAnAgent(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{})
	first, stop := e.startAgent(t, agent.Config{})
	check.Received(t, first, "the first agent to be connected")
	second, _ := e.startAgent(t, agent.Config{})
	check.Received(t, e.taken, "the second agent to find the first")
	stop()
	check.Received(t, second, "the second agent to be connected")
}

// TestModesOfSessions: sessions have the requested mode, whatever its number.
func TestModesOfSessions(t *testing.T) {
	t.Parallel()
	for _, engines := range []guard.Numbering{guard.BySource, guard.BySeed} {
		for _, clients := range []guard.Numbering{guard.BySource, guard.BySeed} {
			e := startEngines(t, &guard.Settings{Queue: 100, Modes: guard.Modes{Clients: clients, Engines: engines}},
				engine.Config{SeedModes: engines == guard.BySeed})
			e.attend(t, agent.Config{})
			normal, otr, none := parallaxpb.SessionMode(1), parallaxpb.SessionMode(2), parallaxpb.SessionMode(4)
			if clients == guard.BySeed {
				normal, otr, none = 0, 1, 2
			}
			for session, mode := range map[string]parallaxpb.SessionMode{"recorded": normal, "off": otr, "none": none} {
				stream, err := e.client.SendMessage(patient(t), &parallaxpb.ClientMessageRequest{SessionId: session,
					Content: "hello", Mode: mode})
				check.Must(t, err)
				_, err = receiveAll(stream)
				if want := map[bool]codes.Code{false: codes.OK,
					true: codes.InvalidArgument}[session == "none"]; status.Code(err) != want {
					t.Errorf("%v %v: %s: %v", clients, engines, session, err)
				}
			}
			list, err := e.client.ListSessions(patient(t), &parallaxpb.ListSessionsRequest{})
			if err != nil || len(list.GetSessions()) != 1 || list.GetSessions()[0].GetId() != "recorded" ||
				list.GetSessions()[0].GetMode() != normal {
				t.Errorf("%v %v: %v, %v", clients, engines, list, err)
			}
			other := metadata.AppendToOutgoingContext(patient(t), "x-session-modes",
				map[guard.Numbering]string{guard.BySource: "seed", guard.BySeed: "source"}[clients])
			if list, err = e.client.ListSessions(other, &parallaxpb.ListSessionsRequest{}); err != nil ||
				list.GetSessions()[0].GetMode() == normal {
				t.Errorf("a mode by its other number: %v, %v", list, err)
			}
		}
	}
}
