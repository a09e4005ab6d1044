package gateway_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/probe"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
	"github.com/capgate/capgate/router"
)

// durableEngine is an engine with its agent whose sessions are on disk: it can be killed, and started again at its
// address.
type durableEngine struct {
	t    *testing.T
	dir  string
	addr string
	kill func() // it has no time to say goodbye
}

func newDurableEngine(t *testing.T) *durableEngine {
	e := &durableEngine{t: t, dir: t.TempDir(), addr: check.ClosedPort(t)}
	e.start()
	check.Cleanup(t, func() { e.kill() })
	return e
}

func (e *durableEngine) start() {
	e.t.Helper()
	served := engine.New(engine.Config{Dir: e.dir})
	server, ln := grpc.NewServer(), listenAt(e.t, e.addr)
	served.Register(server)
	go func() { _ = server.Serve(ln) }()
	ctx, stop := context.WithCancel(context.Background())
	ready, gone := make(chan struct{}), make(chan struct{})
	conn := direct(e.t, e.addr)
	go func() {
		defer close(gone)
		_ = agent.Run(ctx, conn, agent.Config{Ready: func() { close(ready) }})
	}()
	check.Received(e.t, ready, "the agent to be connected")
	e.kill = func() { server.Stop(); stop(); check.Received(e.t, gone, "the end of the agent") }
}

// recordedOf returns what the engine has recorded of a session, once the gateway reaches it.
func recordedOf(t *testing.T, e *engines, session string) (said []string) {
	t.Helper()
	check.Until(t, "the engine", func() (bool, string) {
		h, err := e.client.GetHistory(patient(t), &parallaxpb.GetHistoryRequest{SessionId: session})
		if err != nil && (status.Code(err) != codes.Unavailable || errorInfo(err).GetReason() == "SESSION_LOST") {
			t.Fatal(err)
		}
		for _, m := range h.GetMessages() {
			said = append(said, m.GetContent())
		}
		return err == nil, fmt.Sprint(err)
	})
	return said
}

// TestSessionsOutliveTheirEngine: sessions survive an engine that is killed and comes back at its address,
// whether the gateway noticed through probes or calls, and whether or not the fleet has other engines.
func TestSessionsOutliveTheirEngine(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		for i := range 4 {
			probed, stored := i%2 > 0, i/2 > 0
			t.Run(fmt.Sprintf("%d engines, probed %t, pins stored %t", size, probed, stored), func(t *testing.T) {
				t.Parallel()
				all := make([]*durableEngine, size)
				var addrs []string
				for i := range all {
					all[i] = newDurableEngine(t)
					addrs = append(addrs, all[i].addr)
				}
				e := behind(t, addrs[0], &guard.Settings{Queue: 100}, func(o *gatewaytest.Options) {
					f := &o.Fleets[0]
					f.Backends, f.Affinity = addrs, router.Affinity{Sessions: true, Durable: true}
					if stored {
						o.Store = gatewaytest.StartRedis(t).Open(t).Sessions()
					}
					if f.Unprobed = !probed; probed {
						f.Health = health.Config{Interval: 5 * time.Millisecond, Rise: 1, Fall: 1}
						f.Asks = probe.Of(probe.StatusWord)
					}
				})
				outlive(t, e, all, probed)
			})
		}
	}
}

// outlive kills each engine between two messages of the sessions.
func outlive(t *testing.T, e *engines, all []*durableEngine, probed bool) {
	t.Helper()
	const sessions = 6
	for i := range sessions {
		if got, err := e.say(patient(t), fmt.Sprint("s", i), "first"); err != nil || got != "You said: first" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	for i, one := range all {
		one.kill()
		if probed {
			states := make([]health.State, len(all))
			for j := range states {
				states[j] = health.Up
			}
			states[i] = health.Down
			e.gateway.WaitHealth(t, "engine-1", gatewaytest.States(states...))
		} else {
			for i := range sessions { // calls notice the failure, and do not move to another engine
				_, err := e.client.GetHistory(patient(t), &parallaxpb.GetHistoryRequest{SessionId: fmt.Sprint("s", i)})
				if err != nil && (status.Code(err) != codes.Unavailable || errorInfo(err).GetReason() ==
					"SESSION_LOST") {
					t.Errorf("while the engine is away: %v", err)
				}
			}
		}
		one.start()
	}
	for i := range sessions {
		session := fmt.Sprint("s", i)
		if said := recordedOf(t, e, session); len(said) != 2 || said[0] != "first" || said[1] != "You said: first" {
			t.Errorf("%s: %q", session, said)
		}
		if got, err := e.say(patient(t), session, "second"); err != nil || got != "You said: second" {
			t.Errorf("%s: %q, %v", session, got, err)
		}
		if said := recordedOf(t, e, session); len(said) != 4 || said[2] != "second" {
			t.Errorf("%s: %q", session, said)
		}
	}
	if lost := e.gateway.Metrics(t)["capgate_sessions_lost_total"]; lost != 0 {
		t.Errorf("%v sessions were lost", lost)
	}
}
