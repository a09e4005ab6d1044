package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/gateway"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// quitter connects an agent like published ones: its program ends with exit status 0 at any end of its stream,
// even with an error, so that its engine does not restart it.
func quitter(t *testing.T, g *gatewaytest.Gateway) (exited <-chan int) {
	t.Helper()
	stream, err := session(t, g)
	check.Must(t, err)
	status := make(chan int, 1)
	go func() {
		for err == nil {
			_, err = stream.Recv()
		}
		status <- 0
	}()
	return status
}

// agentsOf waits until a gateway counts the given number of agents of the engine.
func agentsOf(t *testing.T, g *gatewaytest.Gateway, want float64) {
	t.Helper()
	const series = `capgate_engine_agents{capability="engine-1"}` // the metric of the alert CapgateEngineWithoutAgent
	check.Until(t, fmt.Sprint(series, " to be ", want), func() (bool, string) {
		got, there := g.Metrics(t)[series]
		return there && got == want, fmt.Sprint(got, " ", there)
	})
}

// TestEnginesWithoutAgentAreCounted: the metric counts an engine without an agent as soon as its agent's stream
// ends, at the replica that had the stream and at others, also while the engine itself is healthy.
func TestEnginesWithoutAgentAreCounted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(t *testing.T, b *gatewaytest.Backend, e *engines)
		away bool // the replica, with its metrics
	}{
		"the engine stops": {end: func(_ *testing.T, b *gatewaytest.Backend, _ *engines) { b.Stop() }},
		"a replica stops": {away: true, end: func(t *testing.T, _ *gatewaytest.Backend, e *engines) {
			e.gateway.Stop(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := gatewaytest.Serve(t, engine.New(engine.Config{}).Register)
			soon := func(o *gatewaytest.Options) { o.Drain = &gateway.Drain{Timeout: 50 * time.Millisecond} }
			e := behind(t, backend.Addr, &guard.Settings{Queue: 1}, soon)
			other := behind(t, backend.Addr, &guard.Settings{Queue: 1})
			agentsOf(t, e.gateway, 0)
			exited := quitter(t, e.gateway)
			agentsOf(t, e.gateway, 1)
			test.end(t, backend, e)
			if status := check.Received(t, exited, "the agent to quit"); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if !test.away {
				agentsOf(t, e.gateway, 0)
			}
			agentsOf(t, other.gateway, 0)
			if answer, err := other.say(patient(t), "s", "hello"); answer != "" { // at most a failure event
				t.Errorf("an engine without an agent returned %q, %v", answer, err)
			}
		})
	}
}
