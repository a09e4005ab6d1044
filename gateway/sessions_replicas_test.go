package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// replicas are clients of gateways that share a real Redis, and one fleet of rooms.
func (r *room) replicas(t *testing.T, n int) []gatewaytest.Client {
	t.Helper()
	redis := gatewaytest.StartRedis(t)
	clients := make([]gatewaytest.Client, n)
	for i := range clients {
		g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{r.fleet(call.Doc)},
			Store: redis.Open(t).Sessions()})
		clients[i] = gatewaytest.NewClient(g.Conn(t), call.Doc)
	}
	return clients
}

// TestTheSecondLossIsReported: the replica that reported the first loss created a pin that it did not use itself.
// Another replica used it, so that its loss is reported too, at whichever replica the next call arrives.
func TestTheSecondLossIsReported(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"the other replica knows the session": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const backends = 4
			r := newRoom(t, backends, call.Doc)
			replicas := r.replicas(t, 2)
			a, b := replicas[0], replicas[1]
			expect := func(what string, c gatewaytest.Client, lost bool) (served string) {
				t.Helper()
				served, err := r.inSession(t.Context(), c, "mine")
				// A call may meet several dead backends, or a connection that is just ending.
				for tries := 1; tries < backends && errorInfo(err).GetReason() == "BACKEND_UNREACHABLE"; tries++ {
					served, err = r.inSession(t.Context(), c, "mine")
				}
				if reason := errorInfo(err).GetReason(); lost != (reason == "SESSION_LOST") || !lost && err != nil {
					t.Fatalf("%s: served by %q, %v %q", what, served, err, reason)
				}
				return served
			}
			home := expect("the first call", a, false)
			if known {
				expect("a call through the other", b, false)
			}
			for round, through := range []gatewaytest.Client{a, a, b} {
				other := b
				if through == b {
					other = a
				}
				r.stop(home)
				expect(fmt.Sprint("loss ", round+1), through, true)
				home = expect("the next call, through the other", other, false)
				if again := expect("one more", other, false); again != home {
					t.Fatalf("served by %q, not %q", again, home)
				}
			}
		})
	}
}

// TestAnUnusedPinIsNoLossWithReplicas: a pin that was never used moves silently.
func TestAnUnusedPinIsNoLossWithReplicas(t *testing.T) {
	t.Parallel()
	r := newRoom(t, 1, call.Doc)
	r.addrs = append(r.addrs, check.ClosedPort(t))
	replicas := r.replicas(t, 2)
	for i := range 40 {
		if _, err := inSession(t.Context(), replicas[i%2], fmt.Sprint("session-", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoLossIsSilent: backends die at random, and calls arrive at any replica. Another backend serves a
// session's calls only after SESSION_LOST.
func TestNoLossIsSilent(t *testing.T) {
	t.Parallel()
	const backends, sessions, callsBetween = 8, 30, 80
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test's
	r := newRoom(t, backends, call.Doc)
	replicas := r.replicas(t, 3)
	last := make([]string, sessions) // the last backend that responded; "" after its loss was reported
	moved := 0
	for n, stopped := range random.Perm(backends)[1:] {
		for range callsBetween {
			i := random.IntN(sessions)
			served, err := r.inSession(t.Context(), replicas[random.IntN(len(replicas))], fmt.Sprint("session-", i))
			switch {
			case errorInfo(err).GetReason() == "SESSION_LOST":
				last[i] = ""
				moved++
			case errorInfo(err).GetReason() == "BACKEND_UNREACHABLE": // it met several dead ones
			case err != nil:
				t.Fatalf("seed %d, %d dead: %v", seed, n, err)
			case last[i] != "" && served != last[i]:
				t.Fatalf("seed %d, %d dead: session %d went from %q to %q silently", seed, n, i, last[i], served)
			default:
				last[i] = served
			}
		}
		r.stop(r.all[stopped].Name)
	}
	if moved == 0 {
		t.Error("no session was ever lost")
	}
}
