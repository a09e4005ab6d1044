package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// TestMostBackendsDieAtOnce: while one backend is alive, every call that no backend has started is served, whatever the
// retry budget is, and although probes have not noticed anything yet.
func TestMostBackendsDieAtOnce(t *testing.T) {
	t.Parallel()
	const all, workers, before, after = 5, 16, 10, 50
	ways := map[string]func(t *testing.T, b *gatewaytest.Backend){
		"killed":     func(_ *testing.T, b *gatewaytest.Backend) { b.Stop() },
		"going away": func(t *testing.T, b *gatewaytest.Backend) { t.Helper(); b.GoAway(t) },
	}
	for name, end := range ways {
		for what, fleet := range map[string]gatewaytest.Fleet{
			"as it is":         {},
			"without ejection": {Ejection: router.Ejection{Failures: -1, ConnectFailures: -1}},
			"with permits":     {Limit: router.Limit{PerBackend: 2 * workers}},
			"with sessions":    {Affinity: router.Affinity{Sessions: true}},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				var backends [all]*gatewaytest.Backend
				var tools [all]*gatewaytest.Capability
				for i := range all {
					tools[i] = gatewaytest.NewCapability(fmt.Sprint(i))
					backends[i] = tools[i].Serve(t, call.Doc)
					fleet.Backends = append(fleet.Backends, backends[i].Addr)
				}
				fleet.Capability, fleet.Dialect, fleet.Unprobed = "caps", call.Doc, true
				fleet.Retries = router.Retries{Share: -1, Floor: -1}
				g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}})
				ended, warm := make(chan error, workers*(before+after)), make(chan struct{}, workers)
				for w := range workers {
					client := gatewaytest.NewClient(g.Conn(t), call.Doc)
					go func() {
						for i := range before + after {
							r := request(gatewaytest.Echo, `{}`)
							r.SessionId = fmt.Sprintf("%d-%d", w, i)
							_, err := client.Invoke(t.Context(), r)
							ended <- err
							if i == before {
								warm <- struct{}{}
							}
						}
					}()
				}
				for range workers {
					check.Received(t, warm, "calls of each client")
				}
				for _, b := range backends[1:] {
					go end(t, b)
				}
				begun := 0
				for range workers * (before + after) {
					err := check.Received(t, ended, "the end of a call")
					if err == nil {
						continue
					}
					if begun++; status.Code(err) != codes.Unavailable || errorInfo(err).GetReason() != "UPSTREAM_LOST" {
						t.Errorf("got %v, %v", err, errorInfo(err))
					}
				}
				if begun > (all-1)*workers {
					t.Errorf("%d calls were lost, want at most the %d in flight", begun, workers)
				}
			})
		}
	}
}

// TestAttemptsHaveAnEnd: a call that no backend accepts makes one attempt per backend, or two at a single one.
func TestAttemptsHaveAnEnd(t *testing.T) {
	t.Parallel()
	for backends, want := range map[int]int{1: 2, 2: 2, 5: 5} {
		t.Run(fmt.Sprint(backends), func(t *testing.T) {
			t.Parallel()
			var dead []string
			for range backends {
				dead = append(dead, gatewaytest.Unreachable(t))
			}
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
				Capability: "caps", Backends: dead, Unprobed: true, Dialect: call.Doc,
				Ejection: router.Ejection{ConnectFailures: -1}, Retries: router.Retries{Share: -1, Floor: -1},
			}}})
			_, err := gatewaytest.NewClient(g.Conn(t), call.Doc).Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
			if errorInfo(err).GetReason() != "BACKEND_UNREACHABLE" {
				t.Error(err)
			}
			if got := strings.Count(g.Log.String(), `"msg":"call not sent"`); got != want {
				t.Errorf("%d attempts, want %d", got, want)
			}
		})
	}
}

// TestNewSessionsGoElsewhere: a session without calls so far is not bound to an unreachable backend.
func TestNewSessionsGoElsewhere(t *testing.T) {
	t.Parallel()
	alive := gatewaytest.NewCapability("alive")
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{
		Capability: "caps", Unprobed: true, Dialect: call.Doc, Affinity: router.Affinity{Sessions: true},
		Backends: []string{gatewaytest.Unreachable(t), alive.Serve(t, call.Doc).Addr},
		Ejection: router.Ejection{ConnectFailures: -1},
	}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	for i := range 20 {
		r := request(gatewaytest.Echo, `{}`)
		r.SessionId = fmt.Sprint(i)
		for range 2 {
			_, err := client.Invoke(t.Context(), r)
			check.Must(t, err)
		}
	}
}
