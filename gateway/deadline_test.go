package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/policy/extauthz"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// stuck is every dependency that can delay the decision about a call. None of them answers before gate is
// closed.
type stuck struct{ gate chan struct{} }

var errStuck = errors.New("nothing was said in time")

func (s stuck) wait(ctx context.Context) error {
	select {
	case <-s.gate:
		return nil
	case <-ctx.Done():
		return errStuck
	}
}

func (s stuck) refusal(ctx context.Context) *call.Refusal {
	if s.wait(ctx) != nil {
		return &call.Refusal{Kind: call.Unavailable, Reason: "LATE"}
	}
	return nil
}

type stuckAuthenticator struct{ stuck }

func (stuckAuthenticator) Lookup(tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	return who, false, nil
}

func (s stuckAuthenticator) Authenticate(ctx context.Context, _ tenant.Credentials) (tenant.Identity, *call.Refusal) {
	return tenant.Identity{Tenant: "acme", Key: "k", Scopes: tenant.Invoke}, s.refusal(ctx)
}

type stuckShield struct{ stuck }

func (stuckShield) For(string) bool { return true }

func (s stuckShield) Check(ctx context.Context, _ *call.Call, _ []byte) (extauthz.Answer, *call.Refusal) {
	return extauthz.Answer{Verdict: call.Allow}, s.refusal(ctx)
}

type stuckApprover struct{ stuck }

func (s stuckApprover) Create(ctx context.Context, _ *approvals.Request) (a approvals.Approval, granted bool,
	refusal *call.Refusal) {
	return approvals.Approval{}, true, s.refusal(ctx)
}

func (s stuckApprover) Redeem(ctx context.Context, id string, _ *approvals.Request) (approvals.Redemption,
	*call.Refusal) {
	return approvals.Redemption{ID: id}, s.refusal(ctx)
}

func (stuckApprover) Release(context.Context, approvals.Redemption) error { return nil }

func (s stuckApprover) Wait(ctx context.Context, _, _ string) (approvals.Approval, error) {
	return approvals.Approval{}, s.wait(ctx)
}

type stuckLimits struct{ stuck }

func (s stuckLimits) Exchange(ctx context.Context, _ ratelimit.Owner, asks []ratelimit.Demand) ([]ratelimit.Grant,
	error) {
	answers := make([]ratelimit.Grant, len(asks))
	for i, a := range asks {
		answers[i] = ratelimit.Grant{Calls: a.Want, Permits: a.Retain + a.Need + a.Spare}
	}
	return answers, s.wait(ctx)
}

// stuckSessions implements only Bind.
type stuckSessions struct {
	affinity.Store
	stuck
}

func (s stuckSessions) Bind(ctx context.Context, bindings []affinity.Binding) ([]affinity.BindResult, error) {
	bound := make([]affinity.BindResult, len(bindings))
	for i, b := range bindings {
		bound[i] = affinity.BindResult{Pin: b.Pin, New: true}
	}
	return bound, s.wait(ctx)
}

func (stuckSessions) Watch(ctx context.Context, _ func(affinity.Session, affinity.Pin), _ func()) {
	<-ctx.Done()
}

func (stuckSessions) Unavailable() bool { return false }

// asks returns which dependencies a call of the tool echo has to wait for, one per name.
var asks = map[string]func(stuck, *gatewaytest.Options){
	"who calls": func(s stuck, o *gatewaytest.Options) { o.Authenticator = stuckAuthenticator{s} },
	"rules": func(s stuck, o *gatewaytest.Options) {
		rules := &ruled{gate: s.gate, asked: make(chan struct{}),
			rules: map[policy.Name]call.Verdict{on("caps", policy.Any): call.Allow}}
		o.Policy = policy.Options{Store: rules, Source: catalog.New(catalog.Options{}), Timeout: check.Patience}
	},
	"shield": func(s stuck, o *gatewaytest.Options) { o.Shield = stuckShield{s} },
	"approval": func(s stuck, o *gatewaytest.Options) {
		o.Policy, o.Approver = policy.Options{Source: asksAlways()}, stuckApprover{s}
	},
	"limits": func(s stuck, o *gatewaytest.Options) {
		o.Limits = ratelimit.New(ratelimit.Config{Store: stuckLimits{s}})
		o.Limits.Single(&tenant.Settings{ID: tenant.Default,
			Limits: tenant.Limits{Bounds: tenant.Bounds{Concurrent: 5}}})
	},
	"session": func(s stuck, o *gatewaytest.Options) {
		o.Store = stuckSessions{stuck: s}
		o.Fleets[0].Affinity = router.Affinity{Sessions: true}
	},
}

// asksAlways requires approval for each call.
func asksAlways() policy.Source {
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Ask}})
	return tools
}

// callerTime is the deadline of a call whose caller sets one, fleetTime the fleet's for one whose caller does
// not. Calls wait for limits for at most a tenth of a second.
const (
	callerTime = 30 * time.Millisecond
	fleetTime  = 50 * time.Millisecond
)

// overdue lists ways to make a call whose client waits longer than the call's deadline, so that only the
// gateway can end it. If named is set, the caller sets the deadline, otherwise the fleet does. The result is
// the gRPC status.
var overdue = []struct {
	name  string
	named bool
	call  func(*testing.T, *gatewaytest.Gateway) codes.Code
}{
	{"gRPC with a caller's time", true,
		func(t *testing.T, g *gatewaytest.Gateway) codes.Code { return rawCall(t, g, "grpc-timeout", "30m") }},
	{"gRPC with the fleet's", false, func(t *testing.T, g *gatewaytest.Gateway) codes.Code { return rawCall(t, g) }},
	{"JSON with a caller's time", true,
		func(t *testing.T, g *gatewaytest.Gateway) codes.Code { return jsonCall(t, g, "Grpc-Timeout", "30m") }},
	{"JSON with the fleet's", false, func(t *testing.T, g *gatewaytest.Gateway) codes.Code { return jsonCall(t, g) }},
	{"Connect with the fleet's", false,
		func(t *testing.T, g *gatewaytest.Gateway) codes.Code { return webCall(t, g, "", "") }},
	{"Connect with a caller's time", true, func(t *testing.T, g *gatewaytest.Gateway) codes.Code {
		return webCall(t, g, "Connect-Timeout-Ms", "30")
	}},
	{"gRPC-Web with a caller's time", true, func(t *testing.T, g *gatewaytest.Gateway) codes.Code {
		return webCall(t, g, "Grpc-Timeout", "30m", connect.WithGRPCWeb())
	}},
}

// webCall makes a call with a browser client that never cancels.
func webCall(t *testing.T, g *gatewaytest.Gateway, name, value string, options ...connect.ClientOption) codes.Code {
	t.Helper()
	req := connect.NewRequest(inASession())
	req.Header().Set("Authorization", "Bearer secret")
	if name != "" {
		req.Header().Set(name, value)
	}
	_, err := newWebClient(clienttest.HTTP, g.URL(""), options...).invoke.CallUnary(t.Context(), req)
	return codes.Code(connect.CodeOf(err))
}

// rawCall makes a call with a client that never cancels.
func rawCall(t *testing.T, g *gatewaytest.Gateway, header ...string) codes.Code {
	t.Helper()
	c, err := rawhttp2.Dial(g.Addr)
	check.Must(t, err)
	defer c.Close()
	msg, err := proto.Marshal(inASession())
	check.Must(t, err)
	block := c.Block(append([]string{":method", "POST", ":scheme", "http", ":path",
		docpb.Capability_Invoke_FullMethodName, ":authority", "caps",
		"content-type", "application/grpc", "te", "trailers", "authorization", "Bearer secret"}, header...)...)
	check.Must(t, c.Greet())
	check.Must(t, c.Write(rawhttp2.Headers(1, false, block), rawhttp2.Data(1, true, rawhttp2.Message(msg))))
	r, err := c.WaitResponse(1)
	check.Must(t, err)
	var code codes.Code
	if err := code.UnmarshalJSON([]byte(r.Status())); err != nil {
		t.Fatal(r, err)
	}
	return code
}

func inASession() *docpb.InvokeRequest {
	r := request(gatewaytest.Echo, `{}`)
	r.SessionId = "s"
	return r
}

func jsonCall(t *testing.T, g *gatewaytest.Gateway, header ...string) codes.Code {
	t.Helper()
	resp, body := post(t, clienttest.HTTP, g, "caps", `{"tool_name":"echo","args":{},"session_id":"s"}`,
		append(header, "authorization", "Bearer secret")...)
	if resp.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("got %s %s", resp.Status, body)
		return codes.Unknown
	}
	return codes.DeadlineExceeded
}

// TestDeadlineWhileDeciding: whatever delays the decision about a call, the caller gets DEADLINE_EXCEEDED in
// time, the call's resources are released, and the call does not run later.
func TestDeadlineWhileDeciding(t *testing.T) {
	t.Parallel()
	for what, ask := range asks {
		for _, way := range overdue {
			if what == "who calls" && !way.named {
				continue // the fleet is not known yet
			}
			t.Run(what+"/"+way.name, func(t *testing.T) {
				t.Parallel()
				waits := stuck{make(chan struct{})}
				shedder := overload.New(overload.Config{MaxInFlight: 100})
				f := &front{capability: gatewaytest.NewCapability("b1")}
				o := gatewaytest.Options{
					Fleets: []gatewaytest.Fleet{{Capability: "caps",
						Backends:  []string{f.capability.Serve(t, call.Doc).Addr},
						Deadlines: router.Deadlines{Default: fleetTime}}},
					Overload: shedder,
				}
				if way.named {
					o.Fleets[0].Deadlines = router.Deadlines{}
				}
				ask(waits, &o)
				g := gatewaytest.Start(t, o)
				if code := way.call(t, g); code != codes.DeadlineExceeded {
					t.Errorf("the call ended with %v", code)
				}
				waitIdle(t, shedder)
				close(waits.gate)
				if _, err := gatewaytest.NewClient(g.Conn(t), call.Doc).Invoke(bearer(t.Context(), "secret"),
					request(gatewaytest.Echo, `{"after":1}`)); err != nil &&
					status.Code(err) != codes.DeadlineExceeded {
					t.Error(err)
				}
				if seen := f.capability.Seen(); slices.ContainsFunc(seen,
					func(s gatewaytest.Seen) bool { return string(s.Request.GetArgsJson()) == `{}` }) {
					t.Errorf("the call reached a backend: %+v", seen)
				}
			})
		}
	}
}
