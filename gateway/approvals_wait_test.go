package gateway_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// TestACallThatWaitedIsDecidedAgain: a tool that is blocked while a call waits stays blocked. If the gateway stores
// only a part of the request, its content is not checked again.
func TestACallThatWaitedIsDecidedAgain(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(`{"type": "object", "required": ["n"]}`))
	check.Must(t, err)
	d, tools := openDesk(t), catalog.New(catalog.Options{})
	say := func(v call.Verdict) {
		tools.Replace(map[string]catalog.Declaration{"caps": {Validate: true,
			Credentials: credentials.New([]string{"API_KEY"}), Manifest: &manifest.Manifest{
				Tools: []manifest.Tool{{Name: gatewaytest.Echo, Schema: schema, Recommends: true, Recommended: v}},
			}}})
	}
	say(call.Ask)
	capability := gatewaytest.NewCapability("b1")
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets:   []gatewaytest.Fleet{{Capability: "caps", Backends: []string{capability.Serve(t, call.Doc).Addr}}},
		Policy:   policy.Options{Source: tools},
		Approver: d,
	})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	waits := func(args string) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := client.Invoke(with(t.Context(), "x-approval-wait", "60"),
				&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte(args),
					ConfigJson: []byte(`{"API_KEY": "x"}`)})
			ended <- err
		}()
		return ended
	}
	approve := func() {
		t.Helper()
		if _, err := d.Approve(t.Context(), "default", d.next(t, approvals.EventCreated).ID,
			approvals.Answer{}); err != nil {
			t.Fatal(err)
		}
	}
	ended := waits(`{"n": 1}`)
	approve()
	if err := check.Received(t, ended, "the end of the call"); err != nil {
		t.Error(err)
	}
	ended = waits(`{"n": 2}`)
	blocked := d.next(t, approvals.EventCreated)
	say(call.Block)
	if _, err := d.Approve(t.Context(), "default", blocked.ID, approvals.Answer{}); err != nil {
		t.Fatal(err)
	}
	wants(t, check.Received(t, ended, "the end of the call"), codes.PermissionDenied, "TOOL_BLOCKED")
	if a, err := d.Get(t.Context(), "default", blocked.ID); err != nil || a.State != approvals.Approved {
		t.Errorf("got %v, %v", a.State, err)
	}
	if n := len(capability.Seen()); n != 1 {
		t.Errorf("%d calls at the backend", n)
	}
}

// slowRedemption is a store of approvals in which each redemption waits for a gate, as on a slow network.
type slowRedemption struct {
	approvals.Store
	sent  bool          // the redemption waits after it is made, otherwise before
	waits chan struct{} // receives a value for each waiting redemption
	gate  chan struct{}
}

func (s *slowRedemption) Redeem(ctx context.Context, w *approvals.Binding, id, token string) (was approvals.State,
	trace string, err error) {
	if s.sent {
		if was, trace, err = s.Store.Redeem(ctx, w, id, token); err != nil {
			return was, trace, err
		}
	}
	s.waits <- struct{}{}
	select {
	case <-s.gate:
	case <-ctx.Done():
		return 0, "", ctx.Err()
	}
	if s.sent {
		return was, trace, nil
	}
	return s.Store.Redeem(ctx, w, id, token)
}

// TestACallerLeavesDuringTheRedemption: if the caller leaves while its approval is being redeemed, the approval
// is released, and the same call can use it again.
func TestACallerLeavesDuringTheRedemption(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]bool{"before the store has it": false, "before its answer comes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &slowRedemption{Store: gatewaytest.OpenStore(t, "embedded").Approvals(), sent: sent,
				waits: make(chan struct{}, 2), gate: make(chan struct{})}
			d := openDeskOn(t, store, approvals.Options{})
			f := behindDesk(t, d, nil)
			req := request(gatewaytest.Echo, `{}`)
			id := wants(t, second(f.client.Invoke(with(t.Context()), req)), codes.FailedPrecondition,
				"APPROVAL_REQUIRED").GetMetadata()["approval"]
			_, err := d.Approve(t.Context(), "default", id, approvals.Answer{})
			check.Must(t, err)
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- second(f.client.Invoke(with(ctx, "x-approval-id", id), req)) }()
			check.Received(t, store.waits, "the redemption")
			leave()
			wants(t, check.Received(t, ended, "the end of the call of who leaves"), codes.Canceled, "")
			f.gateway.Log.Calls(t, 2) // until the gateway has noticed that the caller left
			close(store.gate)
			d.next(t, approvals.EventReleased)
			if a, err := d.Get(t.Context(), "default", id); err != nil || a.State != approvals.Approved ||
				len(f.capability.Seen()) != 0 {
				t.Errorf("the approval is %v, %v; %d calls at the backend", a.State, err, len(f.capability.Seen()))
			}
			wants(t, second(f.client.Invoke(with(t.Context(), "x-approval-id", id), req)), codes.OK, "")
		})
	}
}

// overdueWait is a desk where every wait for an answer ends at once, as if its time had passed.
type overdueWait struct {
	*desk
	until chan time.Time // receives the time at which each wait would have ended
}

func (d *overdueWait) Wait(ctx context.Context, tenant, id string) (approvals.Approval, error) {
	until, _ := ctx.Deadline()
	d.until <- until
	over, cancel := context.WithCancel(ctx)
	cancel()
	return d.desk.Wait(over, tenant, id)
}

// TestApprovalWaitEndsBeforeTheDeadline: the wait for approval ends half a second before the fleet's deadline,
// and the call's error says to retry.
func TestApprovalWaitEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	const fleetTime, margin = time.Minute, time.Second / 2
	d := &overdueWait{openDesk(t), make(chan time.Time, 1)}
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr},
			Deadlines: router.Deadlines{Default: fleetTime}}},
		Policy: policy.Options{Source: asksAlways()}, Approver: d,
	})
	client, before := gatewaytest.NewClient(g.Conn(t), call.Doc), time.Now()
	_, err := client.Invoke(with(t.Context(), "x-approval-wait", "600"), request(gatewaytest.Echo, `{}`))
	wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED")
	after := time.Now()
	if until := check.Received(t, d.until, "the wait"); until.Before(before.Add(fleetTime-margin)) ||
		until.After(after.Add(fleetTime-margin)) {
		t.Errorf("the call waits until %v before its time is over", after.Add(fleetTime).Sub(until))
	}
}
