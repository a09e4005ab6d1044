package gateway_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/a2a"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	a2apb "github.com/capgate/capgate/proto/lf/a2a/v1"
	"github.com/capgate/capgate/router"
)

const a2aService = "lf.a2a.v1.A2AService"

// servesAgent runs an A2A agent.
func servesAgent(t *testing.T, agent a2apb.A2AServiceServer) *gatewaytest.Backend {
	t.Helper()
	return gatewaytest.Serve(t, func(s *grpc.Server) { a2apb.RegisterA2AServiceServer(s, agent) })
}

// TestAgentsOfA2A: unary calls and streams reach the A2A agents that are granted to the caller's tenant.
func TestAgentsOfA2A(t *testing.T) {
	t.Parallel()
	ring, keys := newKeyring(), tenant.NewKeys(nil)
	keys.Replace(ring.keys, settings(t, map[string][]string{"acme": {"counter"}, "globex": {"other"}}), nil)
	g := gatewaytest.Start(t, gatewaytest.Options{Authenticator: keys, Fleets: []gatewaytest.Fleet{
		{Capability: "counter", Services: []string{a2aService}, Backends: []string{servesAgent(t, a2a.New()).Addr},
			Deadlines: router.Deadlines{Off: true}},
		{Capability: "other", Methods: []string{a2aService + "/*"}, Backends: []string{servesAgent(t, a2a.New()).Addr}},
	}})
	as := func(who string, more ...string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(),
			append([]string{"authorization", "Bearer " + ring.credentials[who], "a2a-version", "1.0"}, more...)...)
	}
	agent := a2apb.NewA2AServiceClient(g.Conn(t))

	answer, err := agent.SendMessage(as("acme"), a2a.Ask("one two three"))
	task := answer.GetTask()
	if err != nil || task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED ||
		task.GetStatus().GetMessage().GetParts()[0].GetText() != "3 words" {
		t.Fatalf("%v, %v; task %+v", answer, err, task)
	}
	if again, err := agent.GetTask(as("acme"), &a2apb.GetTaskRequest{Id: task.GetId()}); err != nil ||
		again.GetContextId() != task.GetContextId() {
		t.Errorf("got %v, %v", again, err)
	}
	stream, err := agent.SendStreamingMessage(as("acme"), a2a.Ask("one two"))
	check.Must(t, err)
	begun, err := stream.Recv()
	changed, err2 := stream.Recv()
	_, end := stream.Recv()
	if begun.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_WORKING ||
		changed.GetStatusUpdate().GetStatus().GetMessage().GetParts()[0].GetText() != "2 words" || err != nil ||
		err2 != nil || !errors.Is(end, io.EOF) {
		t.Errorf("%v, %v, %v: %v", begun, changed, end, errors.Join(err, err2))
	}

	// The agent's own statuses pass unchanged.
	if _, err := agent.GetTask(as("acme"), &a2apb.GetTaskRequest{Id: "x"}); status.Code(err) != codes.NotFound ||
		errorInfo(err) != nil {
		t.Errorf("got %v, %v", err, errorInfo(err))
	}
	// For a tenant without the grant, the agent does not exist, however a call names it.
	_, err = agent.SendMessage(as("globex"), a2a.Ask("x"))
	wants(t, err, codes.Unimplemented, "METHOD_UNKNOWN")
	_, err = agent.SendMessage(as("globex", "x-capability-id", "counter"), a2a.Ask("x"))
	wants(t, err, codes.NotFound, "CAPABILITY_UNKNOWN")
	if answer, err := agent.SendMessage(as("globex", "x-capability-id", "other"), a2a.Ask("x")); err != nil ||
		answer.GetTask() == nil {
		t.Errorf("got %v, %v", answer, err)
	}
	_, err = agent.SendMessage(t.Context(), a2a.Ask("x"))
	wants(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
}

// lostAgent is an A2A agent whose connection breaks in the middle of a message.
type lostAgent struct {
	a2apb.UnimplementedA2AServiceServer
	calls *atomic.Int32 // messages received by all agents
	stop  func()
}

func (l *lostAgent) SendMessage(ctx context.Context, _ *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	l.calls.Add(1)
	go l.stop()
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// TestMessagesToAgentsAreNotRepeated: a message is not retried when its agent is lost, since the agent may have
// started to work on it.
func TestMessagesToAgentsAreNotRepeated(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var backends []string
	for range 2 {
		agent := &lostAgent{calls: &calls}
		b := servesAgent(t, agent)
		agent.stop = b.Stop
		backends = append(backends, b.Addr)
	}
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "counter",
		Services: []string{a2aService}, Backends: backends}}})
	_, err := a2apb.NewA2AServiceClient(g.Conn(t)).SendMessage(t.Context(), a2a.Ask("x"))
	if status.Code(err) != codes.Unavailable || calls.Load() != 1 {
		t.Errorf("%v, after %d calls", err, calls.Load())
	}
}

// watchedAgent sends an event on request and records whether each call has a deadline.
type watchedAgent struct {
	a2apb.UnimplementedA2AServiceServer
	began chan bool // the call has a deadline
	event chan struct{}
}

func (w *watchedAgent) SubscribeToTask(_ *a2apb.SubscribeToTaskRequest,
	stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	_, has := stream.Context().Deadline()
	w.began <- has
	select {
	case <-w.event:
		return stream.Send(&a2apb.StreamResponse{})
	case <-stream.Context().Done():
		return status.FromContextError(stream.Context().Err()).Err()
	}
}

// TestCallsWithoutDeadline: with deadline: off, the gateway sets no deadline on streams of other services.
func TestCallsWithoutDeadline(t *testing.T) {
	t.Parallel()
	watched := &watchedAgent{began: make(chan bool, 1), event: make(chan struct{})}
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "counter",
		Services: []string{a2aService}, Backends: []string{servesAgent(t, watched).Addr},
		Deadlines: router.Deadlines{Off: true, Default: time.Millisecond, Max: time.Millisecond,
			Stream: time.Millisecond}}}})
	agent := a2apb.NewA2AServiceClient(g.Conn(t))
	stream, err := agent.SubscribeToTask(t.Context(), &a2apb.SubscribeToTaskRequest{Id: "x"})
	check.Must(t, err)
	if check.Received(t, watched.began, "the call at the agent") {
		t.Error("the agent got a deadline for a call without one")
	}
	watched.event <- struct{}{}
	if _, err := stream.Recv(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	if _, err = agent.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: "x"}); err != nil {
		t.Fatal(err)
	}
	if !check.Received(t, watched.began, "the call at the agent") {
		t.Error("the caller's own deadline does not reach the agent")
	}
	raw := dialRaw(t, g) // the client sets no deadline
	fields := plainFields("/"+a2aService+"/SubscribeToTask", "x-capability-id", "counter", "grpc-timeout", "200m")
	if a := raw.call(fields, []byte{0, 0, 0, 0, 0}); a.code != codes.DeadlineExceeded {
		t.Errorf("with a deadline that has passed: %v", a)
	}
}
