package gateway_test

import (
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	example "github.com/capgate/capgate/examples/openparallax/shield"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/gateway/engine/shield"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/extauthz"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// handClock is a clock that the test sets.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// TestOneShieldForCallersAndPolicies: verdicts that policies request and verdicts that callers request share
// one cache; the Shield is called again only when a verdict has expired.
func TestOneShieldForCallersAndPolicies(t *testing.T) {
	t.Parallel()
	clock := &handClock{now: time.Now()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := grpc.NewServer()
	openparallaxv1.RegisterShieldServiceServer(server, example.New(example.Config{
		Now: clock.Now, Valid: time.Minute, Decisions: map[string]openparallaxv1.VerdictDecision{
			gatewaytest.Mute:  openparallaxv1.VerdictDecision_BLOCK,
			gatewaytest.Empty: openparallaxv1.VerdictDecision_ESCALATE,
		},
	}))
	go func() { _ = server.Serve(ln) }()
	check.Cleanup(t, server.Stop)
	s := &testShield{Shields: extauthz.New(extauthz.Options{Dial: shield.Dial, Now: clock.Now})}
	check.Cleanup(t, s.Close)
	config := extauthz.Config{Name: "main", Address: ln.Addr().String(), Timeout: check.Patience, Cache: 100}
	check.Must(t, s.Replace([]extauthz.Config{config}, map[string]string{"caps": "main"}))
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{
			{Capability: "caps", Services: []string{"test.Other"},
				Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}},
			{Capability: "shield-1", Services: []string{openparallaxv1.ShieldService_ServiceDesc.ServiceName},
				Backends: []string{ln.Addr().String()}, Protocol: &guard.Settings{}, Unprobed: true},
		},
		Approver: openDesk(t), Shield: s,
	})
	conn := g.Conn(t)
	asked, client := openparallaxv1.NewShieldServiceClient(conn), gatewaytest.NewClient(conn, call.Doc)
	evaluations := func() int64 {
		reply, err := asked.GetShieldStatus(t.Context(), &openparallaxv1.ShieldStatusRequest{})
		check.Must(t, err)
		return reply.GetEvaluationsToday()
	}
	verdicts := map[string]openparallaxv1.VerdictDecision{}
	for _, tool := range []string{gatewaytest.Echo, gatewaytest.Mute, gatewaytest.Empty} {
		reply, err := asked.Evaluate(t.Context(), &openparallaxv1.EvaluateRequest{ActionType: tool, PayloadJson: "{}"})
		if err != nil || reply.GetVerdict().GetExpiresAt() != clock.Now().Add(time.Minute).Unix() {
			t.Fatalf("%s: %v, %v", tool, reply, err)
		}
		verdicts[tool] = reply.GetVerdict().GetDecision()
	}
	if want := map[string]openparallaxv1.VerdictDecision{
		gatewaytest.Echo: openparallaxv1.VerdictDecision_ALLOW, gatewaytest.Mute: openparallaxv1.VerdictDecision_BLOCK,
		gatewaytest.Empty: openparallaxv1.VerdictDecision_ESCALATE,
	}; !maps.Equal(verdicts, want) {
		t.Errorf("verdicts %v", verdicts)
	}
	invoke := func() {
		t.Helper()
		if _, err := client.Invoke(with(t.Context()), request(gatewaytest.Echo, "{}")); err != nil {
			t.Error(err)
		}
		_, err := client.Invoke(with(t.Context()), request(gatewaytest.Mute, "{}"))
		wants(t, err, codes.PermissionDenied, "SHIELD_BLOCKED")
		_, err = client.Invoke(with(t.Context()), request(gatewaytest.Empty, "{}"))
		wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED")
	}
	for _, step := range []struct {
		later time.Duration
		asked int64
	}{{0, 6}, {0, 6}, {59 * time.Second, 6}, {2 * time.Second, 9}, {0, 9}} {
		clock.advance(step.later)
		invoke()
		if n := evaluations(); n != step.asked {
			t.Errorf("the Shield was called %d times, want %d", n, step.asked)
		}
	}
}
