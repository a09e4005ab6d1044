package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// TestEnginesWhileDraining: calls that have started continue while the gateway drains: the engine's directives
// reach its agent.
func TestEnginesWhileDraining(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{})
	received, let := make(chan struct{}), make(chan struct{})
	ctx, leave := context.WithCancel(patient(t))
	ready, gone := make(chan struct{}), make(chan error, 1)
	conn := e.gateway.Conn(t)
	go func() {
		gone <- agent.Run(ctx, conn, agent.Config{
			Ready:    func() { close(ready) },
			Received: func(*parallaxpb.ProcessRequest) { close(received) },
			Think:    func(context.Context, *parallaxpb.ProcessRequest) { <-let },
		})
	}()
	check.Received(t, ready, "the agent to be connected")
	said := make(chan error, 1)
	go func() {
		got, err := e.say(patient(t), "s", `tool: read_file {"path":"a.txt"}`)
		if err == nil && got != "what a.txt says" {
			err = fmt.Errorf("the engine says %q", got)
		}
		said <- err
	}()
	check.Received(t, received, "the agent to have the message")
	e.gateway.Drain()
	for { // until it accepts no further calls
		c, err := net.Dial("tcp", e.gateway.Addr)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	close(let)
	if err := check.Received(t, said, "the message"); err != nil {
		t.Error(err)
	}
	leave()
	if err := check.Received(t, gone, "the agent to leave"); err != nil {
		t.Errorf("the agent: %v", err)
	}
	check.Received(t, e.gateway.Stopped(), "the gateway to stop, as nobody is left")
}

// TestAMessageOutlastsItsCaller: a message runs to its end after its caller has left, and the next one waits
// for that.
func TestAMessageOutlastsItsCaller(t *testing.T) {
	t.Parallel()
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{})
	received, let := make(chan string, 2), make(chan struct{})
	e.attend(t, agent.Config{
		Received: func(m *parallaxpb.ProcessRequest) { received <- m.GetContent() },
		Think:    func(context.Context, *parallaxpb.ProcessRequest) { <-let },
	})
	ctx, leave := context.WithCancel(patient(t))
	if _, err := e.client.SendMessage(ctx, &parallaxpb.ClientMessageRequest{SessionId: "s",
		Content: "first"}); err != nil {
		t.Fatal(err)
	}
	if got := check.Received(t, received, "the message"); got != "first" {
		t.Fatal(got)
	}
	leave()
	second := make(chan error, 1)
	go func() {
		_, err := e.say(patient(t), "s", "second")
		second <- err
	}()
	close(let)
	check.Must(t, check.Received(t, second, "the end of the second message"))
	history, err := e.client.GetHistory(patient(t), &parallaxpb.GetHistoryRequest{SessionId: "s"})
	check.Must(t, err)
	var got []string
	for _, m := range history.GetMessages() {
		got = append(got, m.GetContent())
	}
	if want := "first You said: first second You said: second"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// deadlineLog records whether each call has a deadline.
type deadlineLog struct {
	parallaxpb.UnimplementedAgentServiceServer
	deadlines chan bool
}

func (u deadlineLog) RunSession(s grpc.BidiStreamingServer[parallaxpb.AgentEvent, parallaxpb.EngineDirective]) error {
	_, limited := s.Context().Deadline()
	u.deadlines <- limited
	return nil
}

// TestAgentsHaveNoDeadline: agents' streams have no deadline unless they set one.
func TestAgentsHaveNoDeadline(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	u := deadlineLog{deadlines: make(chan bool, 1)}
	server := grpc.NewServer()
	parallaxpb.RegisterAgentServiceServer(server, u)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	check.Cleanup(t, func() {
		server.Stop()
		if err := check.Received(t, served, "the end of serving"); err != nil {
			t.Error(err)
		}
	})
	e := startEngines(t, &guard.Settings{Queue: 1}, engine.Config{},
		func(o *gatewaytest.Options) { o.Fleets[0].Backends = []string{ln.Addr().String()} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := parallaxpb.NewAgentServiceClient(e.gateway.Conn(t)).RunSession(ctx)
	check.Must(t, err)
	if check.Received(t, u.deadlines, "the deadline") {
		t.Error("an agent's stream has a deadline at the engine")
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
