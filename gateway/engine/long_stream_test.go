package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// asBytes is a codec that passes *[]byte unchanged.
type asBytes struct{}

func (asBytes) Name() string                  { return "" }
func (asBytes) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (asBytes) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// lent is a store for one replica that counts renewals of leases and turns. Entries without renewal for a lease
// are lost.
type lent struct {
	mu      sync.Mutex
	has     map[string]string    // by engine, of a turn or a lease
	until   map[string]time.Time // the same
	renewed int
}

func (l *lent) get(what, id string, lease time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has[what] != "" && l.has[what] != id && time.Now().Before(l.until[what]) {
		return false
	}
	if l.has[what] == id {
		l.renewed++
	}
	l.has[what], l.until[what] = id, time.Now().Add(lease)
	return true
}

func (l *lent) drop(what, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has[what] == id {
		delete(l.has, what)
	}
}

func (l *lent) Wait(_ context.Context, t *turns.Ticket) (turns.Status, error) {
	if l.get("turn "+t.Engine, t.ID, t.Lease) {
		return turns.Status{State: turns.Granted}, nil
	}
	return turns.Status{Seq: 1, Left: t.Lease}, nil
}

func (l *lent) Hold(_ context.Context, t *turns.Ticket) error {
	l.get("turn "+t.Engine, t.ID, t.Lease)
	return nil
}

func (l *lent) Leave(_ context.Context, t *turns.Ticket, _ bool) error {
	l.drop("turn "+t.Engine, t.ID)
	return nil
}

func (l *lent) Acquire(_ context.Context, c *turns.LeaseRequest) (bool, error) {
	return l.get(c.Engine, c.ID, c.Lease), nil
}

func (l *lent) Release(_ context.Context, c *turns.LeaseRequest) error {
	l.drop(c.Engine, c.ID)
	return nil
}

func (l *lent) Watch(ctx context.Context, _ func(string), connected func()) {
	connected()
	<-ctx.Done()
}

// dial connects to what serves in memory, until the test ends.
func dial(t *testing.T, ln *bufconn.Listener) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	check.Must(t, err)
	return conn
}

// TestADay runs an engine and its agent behind a Guard for a day of a fake clock: the agent's stream lives, its
// lease and a message's turn are kept, and a message that takes all day gets its answer.
func TestADay(t *testing.T) {
	check.Bubble(t, func(t *testing.T) {
		const day, message = 24 * time.Hour, 10 * time.Minute
		ctx, stop := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		engines, guarded := bufconn.Listen(1<<16), bufconn.Listen(1<<16)
		serving.Go(func() {
			if err := engine.New(engine.Config{}).Serve(ctx, engines); err != nil {
				t.Error(err)
			}
		})
		store := &lent{has: map[string]string{}, until: map[string]time.Time{}}
		all := turns.New(store, turns.Options{})
		serving.Go(func() { all.Run(ctx) })
		toEngine, toGuard := dial(t, engines), dial(t, guarded)
		template := guard.Call{Sent: func() {}, Tenant: "default", Fleet: "engine-1", Backend: "b",
			Settings:    &guard.Settings{Queue: 10, Buffer: 1 << 20},
			MaxDuration: 2 * day, Failed: func(bool) {}}
		onward := func(ctx context.Context) (context.Context, []grpc.CallOption) {
			return ctx, []grpc.CallOption{grpc.ForceCodec(asBytes{})}
		}
		g := guard.New(guard.Config{
			Shared: guard.Shared{Turns: all},
			Conn:   toEngine,
			Call:   func(context.Context) *guard.Call { p := template; return &p },
			Detach: func(ctx context.Context, f func(context.Context)) error {
				serving.Go(func() { f(context.WithoutCancel(ctx)) })
				return nil
			},
			Continue: onward,
			Refuse:   func(_ context.Context, r *call.Refusal) error { return r },
		})
		server := grpc.NewServer(grpc.ForceServerCodec(asBytes{}), grpc.UnknownServiceHandler(g.Serve),
			grpc.WaitForHandlers(true))
		serving.Go(func() { _ = server.Serve(guarded) })

		ready, gone := make(chan struct{}), make(chan error, 1)
		go func() {
			gone <- agent.Run(ctx, toGuard, agent.Config{Ready: func() { close(ready) },
				Think: func(_ context.Context, m *parallaxpb.ProcessRequest) {
					if m.GetContent() == "all day" {
						<-time.After(day)
					}
				}})
		}()
		<-ready
		client := parallaxpb.NewClientServiceClient(toGuard)
		say := func(what string) {
			t.Helper()
			stream, err := client.SendMessage(ctx, &parallaxpb.ClientMessageRequest{SessionId: "s", Content: what,
				Mode: parallaxpb.SessionMode_NORMAL})
			var last *parallaxpb.PipelineEvent
			for err == nil {
				var event *parallaxpb.PipelineEvent
				if event, err = stream.Recv(); err == nil {
					last = event
				}
			}
			if !errors.Is(err, io.EOF) || last.GetResponseComplete().GetContent() != "You said: "+what {
				t.Errorf("%s: %v, %v", what, last, err)
			}
		}
		began := time.Now()
		for time.Since(began) < day {
			<-time.After(message)
			say("hello")
		}
		say("all day")
		if took := time.Since(began); took < 2*day {
			t.Errorf("it took %v", took)
		}
		if err := agent.Run(ctx, toGuard, agent.Config{}); err == nil {
			t.Error("a second agent after two days")
		}
		if store.renewed < int(2*day/(5*time.Second)) {
			t.Errorf("the leases were renewed %d times", store.renewed)
		}
		stop()
		if err := <-gone; err != nil {
			t.Errorf("the agent: %v", err)
		}
		server.Stop()
		g.Close()
		all.Close()
		serving.Wait()
		if err := errors.Join(toEngine.Close(), toGuard.Close()); err != nil {
			t.Error(err)
		}
	})
}
