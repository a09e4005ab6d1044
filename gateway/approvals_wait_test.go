package gateway_test

import (
	"testing"

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
)

// TestACallThatWaitedIsDecidedAgain: what is blocked while it waits stays blocked, and what
// the call brings, of which not all is kept, is not looked at again.
func TestACallThatWaitedIsDecidedAgain(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(`{"type": "object", "required": ["n"]}`))
	if err != nil {
		t.Fatal(err)
	}
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
		if _, err := d.Approve(t.Context(), "default", d.next(t, approvals.EventCreated).ID, approvals.Answer{}); err != nil {
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
		t.Errorf("%v, %v", a.State, err)
	}
	if n := len(capability.Seen()); n != 1 {
		t.Errorf("%d calls at the backend", n)
	}
}
