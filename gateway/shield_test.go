package gateway_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/engine/shield"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/policy/extauthz"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// once, in a call's arguments, keeps the Shield's verdict from being cached.
const once = "ONCE"

// testShield is a Shield whose verdict is named in the arguments, or the same for all calls after turn.
type testShield struct {
	openparallaxv1.UnimplementedShieldServiceServer
	*extauthz.Shields
	stop func()

	mu     sync.Mutex
	asked  []string
	turned openparallaxv1.VerdictDecision // 0 means none
}

func (s *testShield) Evaluate(_ context.Context, r *openparallaxv1.EvaluateRequest) (*openparallaxv1.EvaluateResponse,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.String())
	v := &openparallaxv1.Verdict{Reasoning: "it looks odd", Decision: s.turned}
	if !strings.Contains(r.GetToolArgsJson(), once) {
		v.ExpiresAt = time.Now().Add(time.Hour).Unix()
	}
	for name, number := range openparallaxv1.VerdictDecision_value {
		if s.turned == 0 && strings.Contains(r.GetToolArgsJson(), name) {
			v.Decision = openparallaxv1.VerdictDecision(number)
		}
	}
	return &openparallaxv1.EvaluateResponse{Verdict: v}, nil
}

// turn makes the Shield return one verdict for all calls from now on.
func (s *testShield) turn(to openparallaxv1.VerdictDecision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turned = to
}

// Check keeps goroutines of its connections out of the count of the gateway's.
func (s *testShield) Check(ctx context.Context, c *call.Call, args []byte) (extauthz.Answer, *call.Refusal) {
	outside()
	return s.Shields.Check(ctx, c, args)
}

func (s *testShield) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// behindShield returns a front whose fleet has a policy and a Shield.
func behindShield(t *testing.T, d *desk, fleet call.Verdict) (*front, *testShield) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	s := &testShield{Shields: extauthz.New(extauthz.Options{Dial: shield.Dial})}
	server := grpc.NewServer()
	openparallaxv1.RegisterShieldServiceServer(server, s)
	go func() { _ = server.Serve(ln) }()
	s.stop = server.Stop
	check.Cleanup(t, s.stop)
	check.Cleanup(t, s.Close)
	config := extauthz.Config{Name: "main", Address: ln.Addr().String(), Timeout: check.Patience, Cache: 100}
	check.Must(t, s.Replace([]extauthz.Config{config}, map[string]string{"caps": "main"}))
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, call.Doc)
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Policy: fleet}})
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Services: []string{"test.Other"},
			Backends: []string{f.backend.Addr}}},
		Policy:   policy.Options{Source: tools, Timeout: check.Patience},
		Approver: d, Shield: s,
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, call.Doc)
	return f, s
}

// TestTheStricterOfPolicyAndShield: the stricter verdict applies, and blocked calls reach no backend.
func TestTheStricterOfPolicyAndShield(t *testing.T) {
	t.Parallel()
	for _, own := range []call.Verdict{call.Allow, call.Ask} {
		t.Run(own.String(), func(t *testing.T) {
			t.Parallel()
			d := openDesk(t)
			f, s := behindShield(t, d, own)
			invoke := func(says string, opts ...grpc.CallOption) error {
				r := request(gatewaytest.Echo, `{"say":"`+says+`"}`)
				r.ConfigJson = []byte(`{"password":"hunter2"}`)
				_, err := f.client.Invoke(with(t.Context(), "x-user-id", "ann"), r, opts...)
				return err
			}
			for range 2 { // the second time from the cache
				if err := invoke("ALLOW", grpc.UseCompressor(gzip.Name)); own == call.Allow && err != nil {
					t.Error(err)
				} else if own == call.Ask {
					wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED")
				}
				wants(t, invoke("ESCALATE"), codes.FailedPrecondition, "APPROVAL_REQUIRED")
				err := invoke("BLOCK")
				wants(t, err, codes.PermissionDenied, "SHIELD_BLOCKED")
				if strings.Contains(err.Error(), "odd") {
					t.Errorf("the caller got the text for approvers: %v", err)
				}
			}
			if n, want := len(f.capability.Seen()), map[call.Verdict]int{call.Allow: 2, call.Ask: 0}[own]; n != want {
				t.Errorf("%d calls at the backend, want %d", n, want)
			}
			asked := s.questions()
			if len(asked) != 3 || strings.Contains(strings.Join(asked, ""), "hunter2") ||
				strings.Contains(strings.Join(asked, ""), "ann") {
				t.Errorf("the Shield was called with %q", asked)
			}
			if own == call.Allow {
				if a := d.next(t, approvals.EventCreated); a.Why != "it looks odd" || a.Level != "shield" {
					t.Errorf("the approval's reason is %q, by %q", a.Why, a.Level)
				}
			}
		})
	}
}

// TestAnEscalatedCallRunsOnceApproved: an approved call runs although the Shield escalates it again. While a
// verdict is valid, the Shield is called once, whether the call is repeated or waited.
func TestAnEscalatedCallRunsOnceApproved(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f, s := behindShield(t, d, call.Allow)
	req := request(gatewaytest.Echo, `{"say":"ESCALATE"}`)
	_, err := f.client.Invoke(with(t.Context()), req)
	id := wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED").GetMetadata()["approval"]
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Invoke(with(t.Context(), "x-approval-id", id), req); err != nil {
		t.Error(err)
	}
	_, err = f.client.Invoke(with(t.Context(), "x-approval-id", id), req)
	wants(t, err, codes.PermissionDenied, "APPROVAL_USED")
	d.next(t, approvals.EventCreated)
	ended := make(chan error, 1)
	go func() {
		ended <- second(f.client.Invoke(with(t.Context(), "x-approval-wait", "60"),
			request(gatewaytest.Echo, `{"say":"ESCALATE","waits":true}`)))
	}()
	_, err = d.Approve(t.Context(), "default", d.next(t, approvals.EventCreated).ID, approvals.Answer{By: "eve"})
	check.Must(t, err)
	check.Must(t, check.Received(t, ended, "the end of the call"))
	if n := len(s.questions()); n != 2 {
		t.Errorf("got %d checks for two calls", n)
	}
}

// TestShieldBlocksAnApprovedCall: if the Shield blocks by now, an approved call does not run and does not use
// up its approval, whether it was repeated with the approval or waited for it.
func TestShieldBlocksAnApprovedCall(t *testing.T) {
	t.Parallel()
	for _, own := range []call.Verdict{call.Allow, call.Ask} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, waits %t", own, waits), func(t *testing.T) {
				t.Parallel()
				d := openDesk(t)
				f, s := behindShield(t, d, own)
				req, ended := request(gatewaytest.Echo, `{"say":"ESCALATE","for":"`+once+`"}`), make(chan error, 1)
				invoke := func(pairs ...string) { ended <- second(f.client.Invoke(with(t.Context(), pairs...), req)) }
				if waits {
					go invoke("x-approval-wait", "60")
				} else {
					invoke()
					wants(t, <-ended, codes.FailedPrecondition, "APPROVAL_REQUIRED")
				}
				id := d.next(t, approvals.EventCreated).ID
				s.turn(openparallaxv1.VerdictDecision_BLOCK)
				_, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"})
				check.Must(t, err)
				if !waits {
					invoke("x-approval-id", id)
				}
				wants(t, check.Received(t, ended, "the end of the call"), codes.PermissionDenied, "SHIELD_BLOCKED")
				if a, err := d.Get(t.Context(), "default", id); err != nil || a.State != approvals.Approved {
					t.Errorf("the approval is %v, %v", a.State, err)
				}
				if n := len(f.capability.Seen()); n != 0 {
					t.Errorf("%d calls at the backend", n)
				}
				s.turn(openparallaxv1.VerdictDecision_ESCALATE)
				if invoke("x-approval-id", id); len(f.capability.Seen()) != 1 {
					t.Errorf("once the Shield does not block it: %v", <-ended)
				}
			})
		}
	}
}

// TestShieldIsNotCalledForBlockedCalls: the Shield is not called about blocked calls, and calls that it cannot
// judge do not run.
func TestShieldIsNotCalledForBlockedCalls(t *testing.T) {
	t.Parallel()
	f, s := behindShield(t, openDesk(t), call.Block)
	_, err := f.client.Invoke(with(t.Context()), request(gatewaytest.Echo, `{"say":"ALLOW"}`))
	wants(t, err, codes.PermissionDenied, "TOOL_BLOCKED")
	other, o := behindShield(t, openDesk(t), call.Allow)
	err = other.conn.Invoke(t.Context(), "/test.Other/Do", request(gatewaytest.Echo, `{"say":"ALLOW"}`),
		request("", ""))
	wants(t, err, codes.PermissionDenied, "SHIELD_BLOCKED")
	for name, args := range map[string]string{"no JSON": "ALLOW", "twice": `{"say":"BLOCK","say":"ALLOW"}`} {
		_, err = other.client.Invoke(with(t.Context()), request(gatewaytest.Echo, args))
		if wants(t, err, codes.InvalidArgument, "ARGUMENTS_INVALID"); strings.Contains(status.Convert(err).Message(),
			"ALLOW") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(s.questions()) + len(o.questions()) + len(f.capability.Seen()) + len(other.capability.Seen()); n != 0 {
		t.Errorf("got %d checks and calls", n)
	}
}

// TestShieldIsDown: calls are rejected with a retry delay.
func TestShieldIsDown(t *testing.T) {
	t.Parallel()
	f, s := behindShield(t, openDesk(t), call.Allow)
	s.stop()
	_, err := f.client.Invoke(with(t.Context()), request(gatewaytest.Echo, `{"say":"ALLOW"}`))
	wants(t, err, codes.Unavailable, "SHIELD_UNAVAILABLE")
	retry := false
	for _, detail := range status.Convert(err).Details() {
		_, is := detail.(*errdetails.RetryInfo)
		retry = retry || is
	}
	if !retry || len(f.capability.Seen()) != 0 {
		t.Errorf("%v, %d calls at the backend; retry %+v", status.Convert(err).Details(), len(f.capability.Seen()),
			retry)
	}
}
