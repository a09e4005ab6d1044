package gateway_test

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/router"
)

// TestASecondAttemptThatIsNotSent: a call whose backend dies, and whose second attempt reaches no backend, may
// have run. Its approval stays used, and a repeat with its idempotency key does not run.
func TestASecondAttemptThatIsNotSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keyed, approved bool
		code            codes.Code // of the repeated call
		reason          string
	}{
		"with a key":       {true, false, codes.Aborted, "IDEMPOTENCY_OUTCOME_UNKNOWN"},
		"with an approval": {false, true, codes.PermissionDenied, "APPROVAL_USED"},
		"with both":        {true, true, codes.Aborted, "IDEMPOTENCY_OUTCOME_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, answers := openDesk(t), gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"),
				idempotency.Options{})
			serve := func(backends ...*gatewaytest.Backend) *gatewaytest.Gateway {
				fleet := gatewaytest.Fleet{Capability: "caps", Dialect: call.Doc, Unprobed: true, Keyed: true,
					Idempotent: []string{"*"}}
				for _, b := range backends {
					fleet.Backends = append(fleet.Backends, b.Addr)
				}
				o := gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}, Answers: answers, Approver: d}
				if test.approved {
					o.Policy.Source = asksAlways()
				}
				return gatewaytest.Start(t, o)
			}
			one, two := gatewaytest.NewCapability("one"), gatewaytest.NewCapability("two")
			first, second := one.Serve(t, call.Doc), two.Serve(t, call.Doc)
			g := serve(first, second)
			client, req := gatewaytest.NewClient(g.Conn(t), call.Doc), request(gatewaytest.Block, `{}`)
			ctx := to(t.Context(), "caps")
			if test.keyed {
				ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", "k")
			}
			id := ""
			if test.approved {
				_, err := client.Invoke(ctx, req)
				id = wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED").GetMetadata()["approval"]
				_, err = d.Approve(t.Context(), "default", id, approvals.Answer{})
				check.Must(t, err)
				ctx = metadata.AppendToOutgoingContext(ctx, "x-approval-id", id)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := client.Invoke(ctx, req)
				ended <- err
			}()
			has, other := first, second // no call has opened a connection to the other backend
			select {
			case <-one.Blocked():
			case <-two.Blocked():
				has, other = second, first
			case <-time.After(check.Patience):
				t.Fatal("the call reached no backend")
			}
			other.Stop()
			has.Stop()
			wants(t, check.Received(t, ended, "the end of the call"), codes.Unavailable, "UPSTREAM_LOST")
			if n := g.Metrics(t)[`capgate_retries_total{capability="caps",result="sent"}`]; n != 1 {
				t.Errorf("%v second attempts", n)
			}
			g.Stop(t) // it has released what it holds
			alive := gatewaytest.NewCapability("alive")
			alive.Release()
			_, err := gatewaytest.NewClient(serve(alive.Serve(t, call.Doc)).Conn(t), call.Doc).Invoke(ctx, req)
			wants(t, err, test.code, test.reason)
			if n, ran := len(alive.Seen()), len(one.Seen())+len(two.Seen()); n != 0 || ran != 1 {
				t.Errorf("the call ran %d times, and its repeat %d times", ran, n)
			}
			if !test.approved {
				return
			}
			if a, err := d.Get(t.Context(), "default", id); err != nil || a.State != approvals.Used {
				t.Errorf("the approval is %v, %v", a.State, err)
			}
		})
	}
}

// unavailable are ways in which a backend that has run a call responds with UNAVAILABLE.
var unavailable = map[string]func(t *testing.T) (addr string, ran func() int){
	"without a header": noting(func(context.Context) error { return nil }),
	"with a pushback": noting(func(ctx context.Context) error {
		return grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "0"))
	}),
	"after its header": noting(func(ctx context.Context) error {
		return grpc.SendHeader(ctx, metadata.Pairs("x-begun", "1"))
	}),
	"after its message": func(t *testing.T) (string, func() int) {
		var ran atomic.Int32
		return gatewaytest.Scripted(t, func(c *rawhttp2.Conn, stream uint32) bool {
			ran.Add(1)
			return c.Write(append(begun(c, stream), rawhttp2.Headers(stream, true,
				c.Block("grpc-status", "14")))...) == nil
		}), func() int { return int(ran.Load()) }
	},
}

// noting records each call and then starts a response.
func noting(begin func(context.Context) error) func(t *testing.T) (addr string, ran func() int) {
	return func(t *testing.T) (string, func() int) {
		c := gatewaytest.NewCapability("noting")
		return c.Serve(t, call.Doc, grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
			handler grpc.UnaryHandler) (any, error) {
			_, err := handler(ctx, req)
			return nil, cmp.Or(err, begin(ctx), status.Error(codes.Unavailable, "busy"))
		})).Addr, func() int { return len(c.Seen()) }
	}
}

// TestRepeatAfterUnavailable: a call whose backend responds with UNAVAILABLE may have run, whatever was
// sent before. A repeat with its idempotency key does not run it, and its error says that the outcome is
// unknown.
func TestRepeatAfterUnavailable(t *testing.T) {
	t.Parallel()
	for name, backend := range unavailable {
		for door, ask := range map[string]func(*testing.T, *gatewaytest.Gateway, string) string{
			"gRPC": func(t *testing.T, g *gatewaytest.Gateway, key string) string {
				_, _, err := keyedCall(t, gatewaytest.NewClient(g.Conn(t), call.Doc), key, gatewaytest.Echo, `{}`)
				return status.Code(err).String() + " " + errorInfo(err).GetReason()
			},
			"gRPC in the live dialect": func(t *testing.T, g *gatewaytest.Gateway, key string) string {
				_, _, err := keyedCall(t, gatewaytest.NewClient(g.Conn(t), call.Live), key, gatewaytest.Echo, `{}`)
				return status.Code(err).String() + " " + errorInfo(err).GetReason()
			},
			"JSON": func(t *testing.T, g *gatewaytest.Gateway, key string) string {
				code, _, text := keyedPost(t, g, key, `{"tool_name":"echo","args":{}}`)
				return http.StatusText(code) + text
			},
		} {
			t.Run(name+"/"+door, func(t *testing.T) {
				t.Parallel()
				addr, ran := backend(t)
				g := gatewaytest.Start(t, gatewaytest.Options{
					Answers: gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
					Fleets: []gatewaytest.Fleet{{Capability: "weather", Backends: []string{addr}, Keyed: true,
						Dialect: call.Doc, Unprobed: true, Ejection: router.Ejection{Failures: -1}}},
				})
				first := ask(t, g, "k")
				g.Log.Calls(t, 1)
				for range 2 {
					if got := ask(t, g, "k"); !strings.Contains(got, "IDEMPOTENCY_OUTCOME_UNKNOWN") || ran() != 1 {
						t.Errorf("the first call got %s, the repeat %s; the tool ran %d times", first, got, ran())
					}
				}
				if !strings.Contains(first, "navailable") {
					t.Errorf("the first got %s", first)
				}
			})
		}
	}
}
