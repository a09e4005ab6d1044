package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router"
)

// approvalGateway is a gateway whose fleet caps requires approval for each call, and whose clients state no wait.
type approvalGateway struct {
	*desk
	gateway    *gatewaytest.Gateway
	capability *gatewaytest.Capability
	at         string // of the listener
}

// startApprovalGateway starts a gateway whose fleet has the given wait for approvals. listener is the wait of its
// listener; nil means none.
func startApprovalGateway(t *testing.T, d *desk, fleet time.Duration, listener *time.Duration) *approvalGateway {
	t.Helper()
	p := &approvalGateway{desk: d, capability: gatewaytest.NewCapability("b1")}
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Ask}})
	l := &tenant.Listener{Name: "own", Capability: "caps", Scopes: tenant.ListenerScopes, ApprovalWait: listener}
	port := gateway.Listener{Of: l, Socket: socket(t, "own")}
	p.at = port.Socket.Addr().String()
	p.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{p.capability.Serve(t, call.Live).Addr},
			ApprovalWait: fleet}},
		Policy: policy.Options{Source: tools}, Approver: d, Listeners: []gateway.Listener{port},
	})
	return p
}

// invoke makes a call with a client of the live dialect, as Selu's orchestrator does.
func (p *approvalGateway) invoke(ctx context.Context, t *testing.T) error {
	t.Helper()
	_, err := gatewaytest.NewClient(p.gateway.Conn(t), call.Live).Invoke(ctx, request(gatewaytest.Echo, `{}`))
	return err
}

// answer approves the waiting call.
func (p *approvalGateway) answer(t *testing.T) {
	t.Helper()
	if _, err := p.Approve(t.Context(), "default", p.next(t, approvals.EventCreated).ID,
		approvals.Answer{}); err != nil {
		t.Error(err)
	}
}

// TestCallsWaitForPeopleByDefault: without a stated wait, a call runs once, as soon as it is approved.
func TestCallsWaitForPeopleByDefault(t *testing.T) {
	t.Parallel()
	p := startApprovalGateway(t, openDesk(t), check.Patience, nil)
	ended := make(chan error, 1)
	go func() { ended <- p.invoke(t.Context(), t) }()
	p.answer(t)
	if err := check.Received(t, ended, "the end of the call"); err != nil {
		t.Error(err)
	}
	answers := make(chan string, 1)
	go func() {
		defer close(answers)
		resp, body := post(t, p.gateway.HTTP1(t), p.gateway, "caps", `{"tool_name":"echo","args":{"n":1}}`)
		answers <- resp.Status + " " + body
	}()
	p.answer(t)
	if got := check.Received(t, answers, "the answer"); got != "200 OK {\"result\":{\"n\":1}}\n" {
		t.Errorf("JSON: %q", got)
	}
	if n := len(p.capability.Seen()); n != 2 {
		t.Errorf("%d calls at the backend, want 2", n)
	}
}

// TestUnansweredCallsAreRejectedBeforeTheirDeadline: without an answer, such a call is rejected when its wait ends,
// before its deadline.
func TestUnansweredCallsAreRejectedBeforeTheirDeadline(t *testing.T) {
	t.Parallel()
	p := startApprovalGateway(t, openDesk(t), 50*time.Millisecond, nil)
	began := time.Now()
	info := wants(t, p.invoke(t.Context(), t), codes.FailedPrecondition, "APPROVAL_REQUIRED")
	if id := info.GetMetadata()["approval"]; id != p.next(t, approvals.EventCreated).ID ||
		time.Since(began) < 50*time.Millisecond || info.GetMetadata()[call.NotStarted] != "true" {
		t.Errorf("%v after %v; id %+v", info, time.Since(began), id)
	}
	resp, body := post(t, p.gateway.HTTP2(t), p.gateway, "caps", `{"tool_name":"echo"}`)
	if resp.StatusCode != http.StatusAccepted || !strings.Contains(body, `"approval_id":"apr_`) {
		t.Errorf("JSON: %s %s", resp.Status, body)
	}
	if n := len(p.capability.Seen()); n != 0 {
		t.Errorf("%d calls at the backend", n)
	}
}

// TestWaitKeepsTimeForTheTool: without a stated wait, a call waits for three quarters of its time.
func TestWaitKeepsTimeForTheTool(t *testing.T) {
	t.Parallel()
	const fleetTime, want, tick = time.Minute, 45 * time.Second, 10 * time.Millisecond // one tick of the relay's clock
	d := &overdueWait{openDesk(t), make(chan time.Time, 1)}
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends:     []string{gatewaytest.NewCapability("b1").Serve(t, call.Live).Addr},
			ApprovalWait: time.Hour, Deadlines: router.Deadlines{Default: fleetTime}}},
		Policy: policy.Options{Source: asksAlways()}, Approver: d,
	})
	client, before := gatewaytest.NewClient(g.Conn(t), call.Live), time.Now()
	_, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
	wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED")
	after := time.Now()
	until := check.Received(t, d.until, "the wait")
	if until.Before(before.Add(want-tick)) || until.After(after.Add(want)) {
		t.Errorf("the call waits for %v to %v of %v", until.Sub(after), until.Sub(before), fleetTime)
	}
}

// TestHeldCallsAreNotSlow: the duration of a call, which alerts and objectives use, excludes the wait for
// approval.
func TestHeldCallsAreNotSlow(t *testing.T) {
	t.Parallel()
	const held = 50 * time.Millisecond
	p := startApprovalGateway(t, openDesk(t), held, nil)
	began := time.Now()
	wants(t, p.invoke(t.Context(), t), codes.FailedPrecondition, "APPROVAL_REQUIRED")
	p.gateway.Log.Calls(t, 1)
	most := (time.Since(began) - held).Seconds()
	took := p.gateway.Metrics(t)[`capgate_call_duration_seconds_sum{capability="caps",code="FAILED_PRECONDITION"}`]
	if took <= 0 || took > most {
		t.Errorf("took %v, more than %v", took, most)
	}
}

// TestCallersSayHowLongTheyWait: the caller's wait takes precedence over the fleet's.
func TestCallersSayHowLongTheyWait(t *testing.T) {
	t.Parallel()
	p := startApprovalGateway(t, openDesk(t), time.Hour, nil)
	// The fleet's wait of an hour does not pass in this test.
	wants(t, soon(t, func() error { return p.invoke(with(t.Context(), "x-approval-wait", "0"), t) }),
		codes.FailedPrecondition, "APPROVAL_REQUIRED")
	resp, body := post(t, p.gateway.HTTP1(t), p.gateway, "caps", `{"tool_name":"echo"}`, "Prefer", "wait=0")
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("JSON: %s %s", resp.Status, body)
	}
	none := startApprovalGateway(t, openDesk(t), 0, nil)
	ended := make(chan error, 1)
	go func() { ended <- none.invoke(with(t.Context(), "x-approval-wait", "60"), t) }()
	none.answer(t)
	if err := check.Received(t, ended, "the end of the call"); err != nil {
		t.Error(err)
	}
}

// TestListenersSayHowLongCallsWait: the listener's wait takes precedence over the fleet's, even if it is 0.
func TestListenersSayHowLongCallsWait(t *testing.T) {
	t.Parallel()
	long, none := check.Patience, time.Duration(0)
	for name, test := range map[string]struct {
		fleet    time.Duration
		listener *time.Duration
		waits    bool
	}{
		"the listener's":      {0, &long, true},
		"the fleet's":         {check.Patience, nil, true},
		"the listener's none": {check.Patience, &none, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startApprovalGateway(t, openDesk(t), test.fleet, test.listener)
			client := gatewaytest.NewClient((&ported{at: map[string]gateway.Listener{}, gateway: &gatewaytest.Gateway{
				Addr: p.at}}).conn(t, ""), call.Live)
			ended := make(chan error, 1)
			go func() {
				_, err := client.Invoke(t.Context(), bare())
				ended <- err
			}()
			if !test.waits {
				err := check.Received(t, ended, "the end of the call")
				wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED")
				return
			}
			p.answer(t)
			if err := check.Received(t, ended, "the end of the call"); err != nil || len(p.capability.Seen()) != 1 {
				t.Errorf("%v, %d calls", err, len(p.capability.Seen()))
			}
		})
	}
}

// TestCallersLeaveWhileTheyWait: when the caller leaves, the approval stays and can be approved and redeemed.
func TestCallersLeaveWhileTheyWait(t *testing.T) {
	t.Parallel()
	p := startApprovalGateway(t, openDesk(t), check.Patience, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.invoke(ctx, t) }()
	a := p.next(t, approvals.EventCreated)
	cancel()
	wants(t, check.Received(t, ended, "the end of the call"), codes.Canceled, "")
	p.gateway.Log.Calls(t, 1) // until the gateway has noticed that the caller left
	if _, err := p.Approve(t.Context(), "default", a.ID, approvals.Answer{}); err != nil {
		t.Fatal(err)
	}
	if n := len(p.capability.Seen()); n != 0 {
		t.Errorf("%d calls at the backend", n)
	}
	if err := p.invoke(with(t.Context(), "x-approval-id", a.ID), t); err != nil {
		t.Error(err)
	}
}

// TestApprovalsThatExpireWhileCallsWait: the wait ends with the approval.
func TestApprovalsThatExpireWhileCallsWait(t *testing.T) {
	t.Parallel()
	p := startApprovalGateway(t, openDeskWith(t, approvals.Options{TTL: 200 * time.Millisecond}), time.Hour, nil)
	wants(t, p.invoke(t.Context(), t), codes.PermissionDenied, "APPROVAL_EXPIRED")
	if n := len(p.capability.Seen()); n != 0 {
		t.Errorf("%d calls at the backend", n)
	}
}
