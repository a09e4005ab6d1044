package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/verify"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// standIn is a small gateway whose guarantees can be broken.
type standIn struct {
	docpb.UnimplementedCapabilityServer
	capgatepb.UnimplementedApprovalsServer
	broken string // the name of a check
	lasts  bool   // no approval expires during the test

	mu   sync.Mutex
	all  map[string]*stored
	runs int
	deaf bool // to the identity of the caller
}

// stored is an approval with its call.
type stored struct {
	*capgatepb.Approval
	args []byte
}

// ttl returns how long an approval is valid: only those of the check of expiry expire.
func (s *standIn) ttl(session, state string) time.Duration {
	if strings.HasSuffix(session, "expiry, "+state) && !s.lasts {
		return 300 * time.Millisecond
	}
	return time.Hour
}

func (s *standIn) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	if s.broken == "credential" {
		return nil, refusal("CREDENTIAL_INVALID", "", "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	said := func(key string) string {
		md, _ := metadata.FromIncomingContext(ctx)
		if v := md.Get(key); len(v) > 0 && !(s.deaf && key != "x-approval-id") {
			return v[0]
		}
		return ""
	}
	call := &stored{args: req.GetArgsJson(), Approval: &capgatepb.Approval{User: said("x-user-id"),
		Agent: said("x-agent-id"), Session: req.GetSessionId(), Capability: req.GetCapabilityId(),
		Tool: req.GetToolName(), State: "pending", ExpireTime: timestamppb.New(time.Now().Add(s.ttl(req.GetSessionId(),
			"pending")))}}
	id := said("x-approval-id")
	if id == "" {
		if s.broken == "asked" {
			return s.run()
		}
		call.Id = fmt.Sprintf("apr_%d", len(s.all))
		s.all[call.Id] = call
		return nil, refusal("APPROVAL_REQUIRED", "approval", call.GetId())
	}
	if s.broken == "away" {
		return nil, status.Error(codes.Unavailable, "away")
	}
	a := s.all[id]
	if reason := s.refuses(a, call); reason != "" {
		return nil, refusal(reason, "comment", a.GetComment())
	}
	if s.broken != "replay" && s.broken != "one redemption" {
		a.State = "used"
	} else if a.GetState() == "approved" { // two calls run
		a.State = "approved once"
	} else {
		a.State = "used"
	}
	return s.run()
}

// refuses returns the reason why a call may not use an approval.
func (s *standIn) refuses(a, call *stored) string {
	expired := time.Now().After(a.GetExpireTime().AsTime()) && s.broken != "expiry"
	for _, of := range []struct {
		name   string
		differ bool
	}{{"arguments", !bytes.Equal(a.args, call.args)}, {"user", a.GetUser() != call.GetUser()},
		{"agent", a.GetAgent() != call.GetAgent()}, {"session", a.GetSession() != call.GetSession()}} {
		if of.differ && s.broken != of.name {
			return "APPROVAL_MISMATCH"
		}
	}
	switch state := a.GetState(); {
	case state == "used":
		return "APPROVAL_USED"
	case expired:
		return "APPROVAL_EXPIRED"
	case state == "denied" && s.broken != "denial":
		return "APPROVAL_DENIED"
	case state == "pending" && s.broken != "pending":
		return "APPROVAL_PENDING"
	case s.broken == "once":
		return "APPROVAL_PENDING"
	}
	return ""
}

func (s *standIn) run() (*docpb.InvokeResponse, error) {
	s.runs++
	return &docpb.InvokeResponse{ResultJson: []byte("{}")}, nil
}

func refusal(reason string, metadata ...string) error {
	st, _ := status.New(codes.PermissionDenied, "no").WithDetails(&errdetails.ErrorInfo{Reason: reason,
		Domain: "capgate.dev", Metadata: map[string]string{metadata[0]: metadata[1]}})
	return st.Err()
}

func (s *standIn) GetApproval(_ context.Context, r *capgatepb.GetApprovalRequest) (*capgatepb.GetApprovalResponse,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &capgatepb.GetApprovalResponse{Approval: s.all[r.GetApprovalId()].Approval}, nil
}

func (s *standIn) Approve(_ context.Context, r *capgatepb.ApproveRequest) (*capgatepb.ApproveResponse, error) {
	a, err := s.answer(r.GetApprovalId(), "approved", r.GetComment())
	return &capgatepb.ApproveResponse{Approval: a}, err
}

func (s *standIn) Deny(_ context.Context, r *capgatepb.DenyRequest) (*capgatepb.DenyResponse, error) {
	a, err := s.answer(r.GetApprovalId(), "denied", r.GetComment())
	return &capgatepb.DenyResponse{Approval: a}, err
}

func (s *standIn) answer(id, state, comment string) (*capgatepb.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[id]
	late := time.Now().After(a.GetExpireTime().AsTime())
	if (a.GetState() != "pending" || late) && s.broken != "one answer" {
		return nil, refusal("APPROVAL_NOT_PENDING", "state", a.GetState())
	}
	a.State, a.Comment, a.ExpireTime = state, comment, timestamppb.New(time.Now().Add(s.ttl(a.GetSession(), state)))
	if s.broken == "no reason" {
		a.Comment = ""
	}
	return proto.CloneOf(a.Approval), nil
}

// configOf serves a stand-in.
func configOf(t *testing.T, s *standIn) verify.Config {
	t.Helper()
	s.all = map[string]*stored{}
	conn := connTo(t, s)
	return verify.Config{Callers: []docpb.CapabilityClient{docpb.NewCapabilityClient(conn)},
		Approvals: capgatepb.NewApprovalsClient(conn), WaitExpiry: time.Minute,
		Call: verify.Call{Capability: "weather", Tool: "get", Args: []byte(`{"a":1}`), OtherArgs: []byte(`{"a":2}`)}}
}

// connTo serves a stand-in, or another replica of it, and returns a connection to it.
func connTo(t *testing.T, s interface {
	docpb.CapabilityServer
	capgatepb.ApprovalsServer
}) *grpc.ClientConn {
	t.Helper()
	b := gatewaytest.Serve(t, func(g *grpc.Server) {
		docpb.RegisterCapabilityServer(g, s)
		capgatepb.RegisterApprovalsServer(g, s)
	})
	conn, err := clienttest.NewConn(b.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// verifyStandIn verifies a stand-in, and returns the results by name.
func verifyStandIn(t *testing.T, s *standIn, change func(*verify.Config)) map[string]verify.Check {
	t.Helper()
	cfg := configOf(t, s)
	if change != nil {
		change(&cfg)
	}
	report, err := verify.Run(t.Context(), cfg)
	check.Must(t, err)
	// nothing runs, so nothing ends
	if report.Approvals != len(s.all) || (len(report.Left) > 0) != (s.broken == "once") {
		t.Errorf("%d approvals of %d, left %v", report.Approvals, len(s.all), report.Left)
	}
	byName := map[string]verify.Check{}
	for _, c := range report.Checks {
		byName[c.Name] = c
	}
	for _, a := range s.all {
		if state := a.GetState(); (state == "pending" || state == "approved") &&
			!slices.Contains(report.Left, a.GetId()) &&
			time.Now().Before(a.GetExpireTime().AsTime()) {
			t.Errorf("%s is left %s", a.GetSession(), state)
		}
	}
	return byName
}

// names of the checks.
var names = []string{"asked", "pending", "once", "replay", "arguments", "user", "agent", "session", "denial",
	"one redemption", "one answer", "expiry"}

// TestAllHolds: every guarantee of a gateway that keeps them passes.
func TestAllHolds(t *testing.T) {
	t.Parallel()
	s := &standIn{}
	checks := verifyStandIn(t, s, nil)
	for _, name := range names {
		if c := checks[name]; c.Result != verify.Pass {
			t.Errorf("%+v", c)
		}
	}
	// Once, replay, one redemption, and the calls of four approvals that are left; of a fifth one if approve won.
	if len(checks) != len(names) || s.runs != 7 && s.runs != 8 {
		t.Errorf("%d checks, %d runs", len(checks), s.runs)
	}
}

// TestBrokenGuarantees: each broken guarantee fails its check.
func TestBrokenGuarantees(t *testing.T) {
	t.Parallel()
	also := map[string][]string{ // what a broken guarantee breaks besides itself
		"asked":  names[1:],                    // without approvals nothing is checked
		"replay": {"one redemption"},           // an approval that runs twice
		"once":   {"replay", "one redemption"}, // nothing runs
		"expiry": {}, "one answer": {"expiry"}, // an expired approval is answered
		"one redemption": {"replay"}, "no reason": {""}, // see replay
	}
	for _, broken := range append(names, "no reason") {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			checks := verifyStandIn(t, &standIn{broken: broken}, nil)
			for _, name := range names {
				want := name != broken && !(broken == "no reason" && name == "denial")
				if c := checks[name]; !want && c.Result != verify.Fail {
					t.Errorf("it does not fail: %+v", c)
				} else if want && c.Result != verify.Pass && !slices.Contains(also[broken], name) {
					t.Errorf("it does not pass: %+v", c)
				}
			}
		})
	}
}

// TestCredential: a caller that the gateway does not know gets an error, not a list of what was not checked.
func TestCredential(t *testing.T) {
	t.Parallel()
	report, err := verify.Run(t.Context(), configOf(t, &standIn{broken: "credential"}))
	if status.Code(err) != codes.PermissionDenied || report.Approvals != 0 || report.Left != nil {
		t.Errorf("%+v %v", report, err)
	}
}

// replica is another replica of a stand-in, which does not know that approvals were used.
type replica struct{ *standIn }

func (r replica) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	resp, err := r.standIn.Invoke(ctx, req)
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == "APPROVAL_USED" {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.run()
		}
	}
	return resp, err
}

// TestEveryReplica: an approval that one replica has used fails the check of replays if another one takes it.
func TestEveryReplica(t *testing.T) {
	t.Parallel()
	s := &standIn{}
	checks := verifyStandIn(t, s, func(c *verify.Config) {
		c.Callers = append(c.Callers, docpb.NewCapabilityClient(connTo(t, replica{s})))
	})
	for name, want := range map[string]string{"once": verify.Pass, "replay": verify.Fail} {
		if c := checks[name]; c.Result != want {
			t.Errorf("%+v", c)
		}
	}
}

// TestAwayGatewayProvesNothing: a call that fails because the gateway is away proves nothing.
func TestAwayGatewayProvesNothing(t *testing.T) {
	t.Parallel()
	cfg := configOf(t, &standIn{broken: "away"})
	cfg.WaitExpiry = 0
	report, err := verify.Run(t.Context(), cfg)
	check.Must(t, err)
	for _, c := range report.Checks {
		want := verify.NotChecked
		if c.Name == "asked" || c.Name == "one answer" {
			want = verify.Pass
		}
		if c.Result != want {
			t.Errorf("%+v", c)
		}
	}
}

// TestInterrupted: a run that is interrupted ends the approvals that it has made.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, last := range []int{2, 5, 9} {
		s := &standIn{lasts: true}
		cfg := configOf(t, s)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		calls := 0
		cfg.Credential = func(ctx context.Context) context.Context {
			if calls++; calls == last {
				interrupt()
			}
			return ctx
		}
		report, err := verify.Run(ctx, cfg)
		if !errors.Is(err, context.Canceled) || report.Left != nil || report.Approvals != len(s.all) ||
			len(s.all) == 0 {
			t.Errorf("call %d: %v, %d approvals of %d, left %v", last, err, report.Approvals, len(s.all), report.Left)
		}
		for _, a := range s.all {
			if state := a.GetState(); state == "pending" || state == "approved" {
				t.Errorf("call %d: %s is left %s", last, a.GetSession(), state)
			}
		}
	}
}

// TestNotChecked: a check that cannot decide says so.
func TestNotChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server *standIn
		change func(*verify.Config)
	}{
		"user":      {&standIn{deaf: true}, nil},
		"agent":     {&standIn{deaf: true}, nil},
		"arguments": {&standIn{}, func(c *verify.Config) { c.Call.OtherArgs = nil }},
		"expiry":    {&standIn{}, func(c *verify.Config) { c.WaitExpiry = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c := verifyStandIn(t, test.server, test.change)[name]; c.Result != verify.NotChecked || c.Why == "" {
				t.Errorf("%+v", c)
			}
		})
	}
}
