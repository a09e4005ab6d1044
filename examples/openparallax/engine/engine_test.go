package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// served is a running engine.
type served struct {
	addr  string
	dial  func(context.Context, string) (net.Conn, error) // nil: TCP
	ended chan error
}

// start serves an engine until the test ends.
func start(t *testing.T, cfg engine.Config) *served {
	t.Helper()
	return startEngine(t, engine.New(cfg))
}

// startEngine serves an engine until the test ends.
func startEngine(t *testing.T, e *engine.Engine) *served {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{addr: ln.Addr().String(), ended: make(chan error, 1)}
	s.serve(t, e, ln)
	return s
}

// startQuiet serves an engine without the network, for tests in a bubble of testing/synctest, whose time advances only
// when all goroutines are blocked.
func startQuiet(t *testing.T, cfg engine.Config) *served {
	t.Helper()
	ln := bufconn.Listen(64 << 10)
	s := &served{addr: "passthrough:///engine", ended: make(chan error, 1),
		dial: func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }}
	s.serve(t, engine.New(cfg), ln)
	return s
}

func (s *served) serve(t *testing.T, e *engine.Engine, ln net.Listener) {
	ctx, stop := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.ended <- e.Serve(ctx, ln)
	}()
	t.Cleanup(func() { stop(); check.Received(t, gone, "the engine to stop") })
}

func (s *served) conn(t *testing.T, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if s.dial != nil {
		opts = append(opts, grpc.WithContextDialer(s.dial))
	}
	conn, err := grpc.NewClient(s.addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *served) client(t *testing.T) openparallaxv1.ClientServiceClient {
	return openparallaxv1.NewClientServiceClient(s.conn(t))
}

// attend runs an agent and returns when it has connected.
func (s *served) attend(t *testing.T, cfg agent.Config) (stop func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done, gone := make(chan struct{}), make(chan error, 1), make(chan struct{})
	cfg.Ready = func() { close(ready) }
	conn := s.conn(t)
	go func() {
		defer close(gone)
		done <- agent.Run(ctx, conn, cfg)
	}()
	stop = func() { cancel(); check.Received(t, gone, "the end of the agent") }
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("the agent: %v", err)
	}
	return stop, done
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	t.Cleanup(cancel)
	return ctx
}

// events returns the remaining events of a stream.
type events []*openparallaxv1.PipelineEvent

// say sends a message and reads the whole answer.
func say(ctx context.Context, c openparallaxv1.ClientServiceClient, session, content string,
	mode openparallaxv1.SessionMode) (events, error) {
	stream, err := c.SendMessage(ctx, &openparallaxv1.ClientMessageRequest{SessionId: session, Content: content,
		Mode: mode, Source: "test"})
	if err != nil {
		return nil, err
	}
	return hear(stream)
}

func hear(stream openparallaxv1.ClientService_SendMessageClient) (all events, err error) {
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func (e events) answer() string {
	for _, e := range e {
		if e.GetResponseComplete() != nil {
			return e.GetResponseComplete().GetContent()
		}
	}
	return ""
}

func (e events) failure() string {
	for _, e := range e {
		if e.GetEventType() == openparallaxv1.PipelineEventType_ERROR {
			return e.GetPipelineError().GetCode()
		}
	}
	return ""
}

// kinds returns the types of the events. Consecutive tokens count as one.
func (e events) kinds() (kinds []openparallaxv1.PipelineEventType) {
	for _, e := range e {
		kind := e.GetEventType()
		if n := len(kinds); n > 0 && kind == openparallaxv1.PipelineEventType_LLM_TOKEN && kinds[n-1] == kind {
			continue
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// recorded returns the engine's record of a session.
func recorded(t *testing.T, c openparallaxv1.ClientServiceClient, session string) (said []string) {
	t.Helper()
	reply, err := c.GetHistory(within(t), &openparallaxv1.GetHistoryRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range reply.GetMessages() {
		said = append(said, m.GetRole()+": "+m.GetContent())
	}
	return said
}
