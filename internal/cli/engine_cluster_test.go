package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// engineGateways are three processes with one Redis and one engine.
type engineGateways struct {
	redis    *redistest.Server
	engine   *watchedEngine
	programs []*program
	clients  []openparallaxv1.ClientServiceClient
	sending  sync.WaitGroup
}

// watchedEngine is an engine that records its messages, and whether they overlap. Its agent answers "hold" when the
// test releases it.
type watchedEngine struct {
	*engine.Engine
	holds, let chan struct{}

	mu      sync.Mutex
	running int
	overlap bool
	got     []string
}

func (e *watchedEngine) SendMessage(r *openparallaxv1.ClientMessageRequest,
	stream openparallaxv1.ClientService_SendMessageServer) error {
	e.see(1, r.GetContent())
	defer e.see(-1)
	return e.Engine.SendMessage(r, stream)
}

func (e *watchedEngine) see(more int, got ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running += more
	e.overlap = e.overlap || e.running > 1
	e.got = append(e.got, got...)
}

// ended returns the messages that the engine got since the last call.
func (e *watchedEngine) ended(t *testing.T) []string {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.overlap {
		t.Error("messages overlapped")
	}
	got := e.got
	e.got = nil
	return got
}

// startWatched runs an engine and its agent, which connects to it without a gateway.
func startWatched(t *testing.T) (e *watchedEngine, addr string) {
	t.Helper()
	e = &watchedEngine{Engine: engine.New(engine.Config{}), holds: make(chan struct{}, 10), let: make(chan struct{})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := grpc.NewServer()
	openparallaxv1.RegisterAgentServiceServer(server, e)
	openparallaxv1.RegisterClientServiceServer(server, e)
	conn, err := clienttest.NewConn(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	ready := make(chan struct{})
	running.Go(func() { _ = server.Serve(ln) }) // ends with Stop
	running.Go(func() {
		err := agent.Run(ctx, conn, agent.Config{Ready: func() { close(ready) },
			Think: func(ctx context.Context, m *openparallaxv1.ProcessRequest) {
				if m.GetContent() == "hold" {
					e.holds <- struct{}{}
					select {
					case <-e.let:
					case <-ctx.Done():
					}
				}
			}})
		if err != nil {
			t.Errorf("agent: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		server.Stop()
		check.Ended(t, &running, "the background work to end")
		_ = conn.Close()
	})
	check.Received(t, ready, "the readiness")
	return e, ln.Addr().String()
}

func startEngineGateways(t *testing.T) *engineGateways {
	t.Helper()
	g := &engineGateways{redis: redistest.Start(t)}
	watched, addr := startWatched(t)
	g.engine = watched
	file := writeConfig(t,
		fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nredis: {url: '%s', timeout: 10s}\noverload: "+
			"{max_delay: 10s}\n"+"fleets: [{capability: engine-1, protocol: openparallax, services: "+
			"[openparallax.v1.ClientService], health: "+"{timeout: 5s}, backends: ['%s']}]\n", g.redis.URL(), addr))
	for range 3 {
		p, public, _ := serve(t, nil, "--config", file)
		conn, err := clienttest.NewConn("passthrough:///"+public,
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		check.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		g.programs, g.clients = append(g.programs, p), append(g.clients, openparallaxv1.NewClientServiceClient(conn))
	}
	return g
}

// say sends a message through a gateway, and returns the answer in the last event.
func (g *engineGateways) say(gateway int, content string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), check.Patience)
	defer cancel()
	stream, err := g.clients[gateway].SendMessage(ctx, &openparallaxv1.ClientMessageRequest{
		Content: content, SessionId: "of " + content, Mode: openparallaxv1.SessionMode_NORMAL,
	})
	if err != nil {
		return "", err
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return answer, nil
		}
		if err != nil {
			return "", err
		}
		if c := event.GetResponseComplete(); c != nil {
			answer = c.GetContent()
		}
	}
}

// hold sends a message that the agent answers when released, and returns when the agent has it.
func (g *engineGateways) hold(t *testing.T, gateway int) (ended <-chan error) {
	t.Helper()
	end := make(chan error, 1)
	g.sending.Go(func() {
		_, err := g.say(gateway, "hold")
		end <- err
	})
	check.Received(t, g.engine.holds, "the agent to get a message to hold")
	return end
}

// queue sends messages through the given gateways in turn, each when the previous one waits, and returns their
// names.
func (g *engineGateways) queue(t *testing.T, n int, gateways ...int) (all []string) {
	t.Helper()
	for i := range n {
		name := fmt.Sprint("message ", i)
		all = append(all, name)
		g.sending.Go(func() {
			if answer, err := g.say(gateways[i%len(gateways)], name); err != nil || answer != "You said: "+name {
				t.Errorf("%s: %q, %v", name, answer, err)
			}
		})
		g.waiting(t, i+1)
	}
	return all
}

// waiting waits until the given number of messages waits for the engine.
func (g *engineGateways) waiting(t *testing.T, want int) {
	t.Helper()
	check.Until(t, "messages to wait", func() (bool, string) {
		n := int64(0)
		if keys, _ := g.redis.Do("KEYS", "*{engines:turns:*}:line").([]any); len(keys) == 1 {
			n, _ = g.redis.Do("ZCARD", keys[0]).(int64)
		}
		return n == int64(want), fmt.Sprintf("%d wait, not %d", n, want)
	})
}

// TestFiftyMessagesToOneEngine: messages through three gateways arrive one at a time and in order, and all are
// answered.
func TestFiftyMessagesToOneEngine(t *testing.T) {
	t.Parallel()
	g := startEngineGateways(t)
	first := g.hold(t, 0)
	want := append([]string{"hold"}, g.queue(t, 50, 0, 1, 2)...)
	close(g.engine.let)
	check.Must(t, check.Received(t, first, "the end of the first message"))
	g.sending.Wait()
	if got := g.engine.ended(t); !slices.Equal(got, want) {
		t.Errorf("the engine got %q", got)
	}
	for i := range 50 {
		g.sending.Go(func() {
			if _, err := g.say(i%3, fmt.Sprint("at once ", i)); err != nil {
				t.Error(err)
			}
		})
	}
	g.sending.Wait()
	if got := g.engine.ended(t); len(got) != 50 {
		t.Errorf("of 50 at once the engine got %q", got)
	}
}

// TestAGatewayWithTheLeaseIsKilled: messages that wait at other gateways reach the engine when the lease
// expires; those of the killed gateway do not.
func TestAGatewayWithTheLeaseIsKilled(t *testing.T) {
	t.Parallel()
	g := startEngineGateways(t)
	first := g.hold(t, 0)
	want := append([]string{"hold"}, g.queue(t, 10, 1, 2)...)
	lost := make(chan error, 1)
	go func() {
		_, err := g.say(0, "lost")
		lost <- err
	}()
	g.waiting(t, 11)
	g.programs[0].signal(t, syscall.SIGKILL)
	check.Received(t, g.programs[0].exited, "the end of the process")
	a := check.Received(t, first, "the end of the first message")
	b := check.Received(t, lost, "the end of the lost message")
	if a == nil || b == nil {
		t.Errorf("of the one that was killed: %v, %v", a, b)
	}
	close(g.engine.let)
	g.sending.Wait()
	if got := g.engine.ended(t); !slices.Equal(got, want) {
		t.Errorf("the engine got %q", got)
	}
}

// TestEngineWithoutRedis: running messages continue, waiting ones keep waiting, new ones are rejected; the
// order is kept when Redis is back, empty.
func TestEngineWithoutRedis(t *testing.T) {
	t.Parallel()
	g := startEngineGateways(t)
	for _, before := range []bool{false, true} { // it is answered before Redis is back
		first := g.hold(t, 0)
		want := append([]string{"hold"}, g.queue(t, 20, 1, 2, 0)...)
		g.redis.Kill()
		for gateway := range g.clients {
			_, err := g.say(gateway, "refused")
			if status.Code(err) != codes.Unavailable || !strings.Contains(fmt.Sprint(reasons(err)),
				"ENGINE_STATE_UNAVAILABLE") {
				t.Errorf("gateway %d: %v %v", gateway, err, reasons(err))
			}
		}
		if before {
			g.engine.let <- struct{}{}
			check.Must(t, check.Received(t, first, "the end of the first message"))
			g.redis.Restart()
		} else {
			g.redis.Restart()
			g.waiting(t, 20)
			g.engine.let <- struct{}{}
			check.Must(t, check.Received(t, first, "the end of the first message"))
		}
		g.sending.Wait()
		got := g.engine.ended(t)
		if before { // waiting tickets renew themselves in any order
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the engine got %q", got)
		}
	}
}

// reasons returns the reasons in an error's details.
func reasons(err error) (all []string) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			all = append(all, info.GetReason())
		}
	}
	return all
}
