package approval_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// ports are both ports of one replica, on a real Keeper with a Redis in the process.
type ports struct {
	*gatewaytest.Services
	backing *approvals.Service
	service *approval.Service
	client  capgatepb.ApprovalsClient // operators'
	callers capgatepb.ApprovalsClient // names itself
	log     *log
	rules   *rules
}

// log has the logged lines.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// rules keeps the rules that answers become.
type rules struct {
	mu  sync.Mutex
	set []policy.Rule
	err error
}

func (r *rules) Set(_ context.Context, rule policy.Rule) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.set = append(r.set, rule)
	}
	return r.err
}

func serve(t *testing.T, change ...func(*approval.Config)) *ports {
	t.Helper()
	p := &ports{log: &log{}, rules: &rules{}}
	store := gatewaytest.OpenStore(t, "embedded").Approvals()
	var err error
	subscribed := make(chan struct{})
	if p.backing, err = approvals.New(followed{store, sync.OnceFunc(func() { close(subscribed) })},
		approvals.Options{Rules: p.rules}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.backing.Run(ctx) })
	check.Cleanup(t, func() { stop(); check.Ended(t, &running, "the background work to end") })
	check.Received(t, subscribed, "the subscription to changes of approvals")
	cfg := approval.Config{
		Approvals: outside{p.backing}, Across: store,
		Log: slog.New(slog.NewTextHandler(p.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	p.service = approval.New(cfg)
	p.Services = gatewaytest.ServeOperators(t, p.service.Operators())
	p.client = capgatepb.NewApprovalsClient(p.Conn)
	p.callers = p.serveCallers(t)
	return p
}

// serveCallers serves the public port's service without the relay's authentication.
func (p *ports) serveCallers(t *testing.T) capgatepb.ApprovalsClient {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	g := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		next grpc.UnaryHandler) (any, error) {
		return next(called(ctx), req)
	}), grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo,
		next grpc.StreamHandler) error {
		return next(srv, calledStream{s})
	}))
	p.service.Register(g)
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(ln) })
	check.Cleanup(t, func() { g.Stop(); check.Ended(t, &serving, "the server to stop") })
	conn, err := clienttest.NewConn(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return capgatepb.NewApprovalsClient(conn)
}

// ask makes an approval.
func (p *ports) ask(t *testing.T, r approvals.Request) approvals.Approval {
	t.Helper()
	if r.Tenant == "" {
		r.Tenant = tenant.Default
	}
	r.Capability = "mail"
	if r.Tool == "" {
		r.Tool = "send"
	}
	a, granted, refusal := p.backing.Create(t.Context(), &r)
	if granted || refusal != nil {
		t.Fatal(granted, refusal)
	}
	return a
}

// refusal checks the code and the reason of an error.
func refusal(t *testing.T, what string, err error, code codes.Code, reason string) {
	t.Helper()
	if status.Code(err) != code || clienttest.Reason(err) != reason {
		t.Errorf("%s: %v (%s); want %v, %s", what, err, clienttest.Reason(err), code, reason)
	}
}

func TestApprovalsByJSON(t *testing.T) {
	t.Parallel()
	p := serve(t)
	one := p.ask(t, approvals.Request{User: "ann", Agent: "bot", Session: "s1", Description: "Sends a letter.",
		RequestID: "r1", Level: "tenant", Change: "it has changed:\n+ new",
		Why: "the tool has changed", Args: []byte(`{"to":"bob","password":"hunter2"}`)})
	two := p.ask(t, approvals.Request{User: "bob", Tool: "read"})
	other := p.ask(t, approvals.Request{Tenant: "acme", User: "ann"})
	for _, step := range []struct {
		method, path, body string
		status             int
		want               []string
	}{
		{"GET", "", "", 200, []string{one.ID, two.ID}},
		{"GET", "?state=pending&user=ann", "", 200, []string{one.ID}},
		{"GET", "?state=approved", "", 200, []string{`"approvals":[]`}},
		{"GET", "?tool=read&capability=mail&agent=", "", 200, []string{two.ID}},
		{"GET", "?tenant=acme", "", 200, []string{other.ID, `"tenant":"acme"`}},
		{"GET", "/" + one.ID, "", 200, []string{`"id":"` + one.ID + `"`,
			`"name":"tenants/default/approvals/` + one.ID + `"`, `"update_time":"20`, `"user":"ann"`,
			`"agent":"bot"`, `"tool":"send"`, `"description":"Sendsaletter."`,
			`"tool_change":"ithaschanged:\n+new"`, `"session":"s1"`, `"level":"tenant"`, `"why":"thetoolhaschanged"`,
			`"request_id":"r1"`, `"state":"pending"`, `\"to\":\"bob\"`, `[masked:1to8characters,byitsname]`,
			`"expire_time":"20`}},
		{"GET", "/" + other.ID, "", 404, []string{"APPROVAL_UNKNOWN"}},
		{"GET", "/" + other.ID + "?tenant=acme", "", 200, []string{`"state":"pending"`}},
		{"GET", "/nothing", "", 404, []string{"APPROVAL_UNKNOWN"}},
		{"POST", "/" + one.ID + "/approve", `{"by":"eve","comment":"fine"}`, 200,
			[]string{`"state":"approved"`, `"answered_by":"eve"`, `"comment":"fine"`, `"remember":"call"`,
				`"answer_time"`}},
		{"POST", "/" + one.ID + "/deny", "", 400,
			[]string{"APPROVAL_NOT_PENDING", `"state":"approved"`, "FAILED_PRECONDITION"}},
		{"POST", "/" + two.ID + "/deny", "", 200, []string{`"state":"denied"`, `"answered_by":"operator"`}},
		{"POST", "/" + two.ID + "/approve", `{"tenant":"acme"}`, 404, []string{"APPROVAL_UNKNOWN"}},
		{"POST", "/" + other.ID + "/approve", `{"tenant":"acme","remember":"session"}`, 400,
			[]string{"APPROVAL_NOT_REMEMBERED"}},
		{"POST", "/" + other.ID + "/approve", `{"tenant":"acme","remember":"always"}`, 200,
			[]string{`"remember":"always"`}},
	} {
		code, body := p.Ask(t, step.method, "/v1/approvals"+step.path, step.body)
		if code != step.status {
			t.Errorf("%s %s %s: %d %s", step.method, step.path, step.body, code, body)
		}
		for _, want := range step.want {
			if !strings.Contains(strings.ReplaceAll(body, " ", ""), want) {
				t.Errorf("%s %s %s: no %s in %s", step.method, step.path, step.body, want, body)
			}
		}
		if strings.Contains(body, "hunter2") {
			t.Errorf("%s %s shows a secret: %s", step.method, step.path, body)
		}
	}
	if p.rules.mu.Lock(); len(p.rules.set) != 1 || p.rules.set[0].Tenant != "acme" || p.rules.set[0].User != "ann" {
		t.Errorf("rules: %+v", p.rules.set)
	}
	p.rules.mu.Unlock()
	if lines := p.log.String(); strings.Count(lines, "approval answered") != 3 ||
		!strings.Contains(lines, "by=eve") || strings.Contains(lines, "hunter2") {
		t.Errorf("logged: %s", lines)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	p := serve(t)
	a := p.ask(t, approvals.Request{User: "ann"})
	long := strings.Repeat("a", 1025)
	for _, path := range []string{"?page_size=101", "?page_size=-1", "?page_token=!", "?state=open",
		"?tenant=" + long, "/events?tenant=" + long} {
		if code, body := p.Ask(t, "GET", "/v1/approvals"+path, ""); code != 400 ||
			!strings.Contains(body, "APPROVAL_INVALID") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := p.Ask(t, "GET", "/v1/approvals?page_size=x", ""); code != 400 ||
		!strings.Contains(body, "INVALID_QUERY") ||
		!strings.Contains(body, "the value of page_size has the wrong type") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := p.Ask(t, "GET", "/v1/approvals/events?last_event_id=x", ""); code != 400 ||
		!strings.Contains(body, "EVENT_INVALID") {
		t.Errorf("%d %s", code, body)
	}
	for body, want := range map[string]string{
		`{"remember":"ever"}`: "APPROVAL_INVALID", `{"by":"` + long + `"}`: "APPROVAL_INVALID", `{"comment":"` +
			long + `"}`: "APPROVAL_INVALID",
		`{`: "INVALID_BODY", `{"commend":"x"}`: "INVALID_BODY", `[]`: "INVALID_BODY",
	} {
		for _, way := range []string{"/approve", "/deny"} {
			if code, text := p.Ask(t, "POST", "/v1/approvals/"+a.ID+way, body); code != 400 ||
				!strings.Contains(text, want) {
				t.Errorf("%s %.40s: %d %s", way, body, code, text)
			}
		}
	}
	if code, _ := p.Ask(t, "POST", "/v1/approvals/"+a.ID+"/approve", "", "Origin", "https://evil.example",
		"Sec-Fetch-Site", "cross-site"); code != 403 {
		t.Errorf("from another site's page: %d", code)
	}
	if now, err := p.backing.Get(t.Context(), a.Tenant, a.ID); err != nil || now.State != approvals.Pending {
		t.Errorf("%v, %v", now.State, err)
	}
}

// TestPagesHaveEachApprovalOnce: pages have each approval that is asked for once, and the latest first.
func TestPagesHaveEachApprovalOnce(t *testing.T) {
	t.Parallel()
	p := serve(t)
	want := ""
	for _, tool := range []string{"a", "b", "c", "d", "e"} {
		p.ask(t, approvals.Request{User: "ann", Tool: tool})
		p.ask(t, approvals.Request{User: "bob", Tool: "x" + tool})
		want = tool + want
	}
	for who, list := range map[string]func(context.Context, *capgatepb.ListApprovalsRequest,
		...grpc.CallOption) (*capgatepb.ListApprovalsResponse, error){
		"operators": p.client.ListApprovals, "callers": p.callers.ListApprovals,
	} {
		req := &capgatepb.ListApprovalsRequest{PageSize: 2, User: "ann"}
		tools, seen := "", map[string]bool{}
		for pages := 0; pages == 0 || req.GetPageToken() != ""; pages++ {
			resp, err := list(caller(t.Context(), tenant.Default, "ann"), req)
			if err != nil || len(resp.GetApprovals()) > 2 || pages > 8 {
				t.Fatal(who, resp, err, pages)
			}
			for _, a := range resp.GetApprovals() {
				tools += a.GetTool()
				seen[a.GetId()] = true
			}
			req.PageToken = resp.GetNextPageToken()
		}
		if len(tools) != 5 || len(seen) != 5 || strings.Contains(tools, "x") {
			t.Errorf("%s: the tools are %q, want %q or so; the approvals are %v", who, tools, want, seen)
		}
	}
}

// TestCallersSeeTheirOwn: a caller sees its tenant's, and a named one its user's.
func TestCallersSeeTheirOwn(t *testing.T) {
	t.Parallel()
	p := serve(t)
	ann, bob := p.ask(t, approvals.Request{User: "ann"}), p.ask(t, approvals.Request{User: "bob"})
	acme := p.ask(t, approvals.Request{Tenant: "acme", User: "ann"})
	for _, test := range []struct {
		tenant, user string
		sees, not    []approvals.Approval
	}{
		{tenant.Default, "ann", []approvals.Approval{ann}, []approvals.Approval{bob, acme}},
		{tenant.Default, "", []approvals.Approval{ann, bob}, []approvals.Approval{acme}},
		{"acme", "ann", []approvals.Approval{acme}, []approvals.Approval{ann, bob}},
		{"acme", "bob", nil, []approvals.Approval{ann, bob, acme}},
	} {
		ctx := caller(t.Context(), test.tenant, test.user)
		for _, a := range test.sees {
			if got, err := p.callers.GetApproval(ctx, &capgatepb.GetApprovalRequest{ApprovalId: a.ID}); err != nil ||
				got.GetApproval().GetUser() != a.User {
				t.Errorf("%s of %s: %v, %v", test.user, test.tenant, got, err)
			}
		}
		for _, a := range test.not {
			_, err := p.callers.GetApproval(ctx, &capgatepb.GetApprovalRequest{ApprovalId: a.ID})
			refusal(t, test.user+" of "+test.tenant+" gets another's", err, codes.NotFound, "APPROVAL_UNKNOWN")
		}
		for _, user := range []string{"", test.user} {
			if resp, err := p.callers.ListApprovals(ctx, &capgatepb.ListApprovalsRequest{User: user}); err != nil ||
				len(resp.GetApprovals()) != len(test.sees) {
				t.Errorf("%s of %s lists %v, %v", test.user, test.tenant, resp, err)
			}
		}
	}
	ctx := caller(t.Context(), tenant.Default, "ann")
	if resp, err := p.callers.ListApprovals(ctx, &capgatepb.ListApprovalsRequest{User: "bob"}); err != nil ||
		len(resp.GetApprovals()) != 0 {
		t.Errorf("ann lists bob's: %v, %v", resp, err)
	}
	for what, err := range map[string]error{
		"get":  second(p.callers.GetApproval(ctx, &capgatepb.GetApprovalRequest{Tenant: "acme", ApprovalId: acme.ID})),
		"list": second(p.callers.ListApprovals(ctx, &capgatepb.ListApprovalsRequest{Tenant: "acme"})),
	} {
		refusal(t, what+" of another tenant", err, codes.NotFound, "APPROVAL_UNKNOWN")
	}
	for _, who := range []context.Context{t.Context(), caller(t.Context(), "", "bob"), caller(ctx, "acme", "bob")} {
		_, err := p.callers.ListApprovals(who, &capgatepb.ListApprovalsRequest{})
		refusal(t, "nobody", err, codes.Internal, "")
	}
}

func second[T any](_ T, err error) error { return err }

// TestCallersDoNotAnswer: not even their own, and nothing changes.
func TestCallersDoNotAnswer(t *testing.T) {
	t.Parallel()
	p := serve(t)
	a := p.ask(t, approvals.Request{User: "ann"})
	for _, user := range []string{"", "ann", "bob"} {
		ctx := caller(t.Context(), tenant.Default, user)
		refusal(t, "approve", second(p.callers.Approve(ctx, &capgatepb.ApproveRequest{ApprovalId: a.ID})),
			codes.PermissionDenied, "APPROVER_REQUIRED")
		refusal(t, "deny", second(p.callers.Deny(ctx, &capgatepb.DenyRequest{ApprovalId: a.ID})),
			codes.PermissionDenied, "APPROVER_REQUIRED")
	}
	if now, err := p.backing.Get(t.Context(), a.Tenant, a.ID); err != nil || now.State != approvals.Pending {
		t.Errorf("%v, %v", now.State, err)
	}
}

// TestNamesOfAnyBytes: any caller's name can be returned.
func TestNamesOfAnyBytes(t *testing.T) {
	t.Parallel()
	p := serve(t)
	a := p.ask(t, approvals.Request{User: "a\xffn", Agent: "\xc3", Session: "s\x80"})
	resp, err := p.client.GetApproval(t.Context(), &capgatepb.GetApprovalRequest{ApprovalId: a.ID})
	if err != nil || resp.GetApproval().GetUser() != "a\uFFFDn" {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestRuleThatCannotBeSet(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.rules.err = policy.ErrFull
	a := p.ask(t, approvals.Request{User: "ann"})
	_, err := p.client.Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: a.ID, Remember: "always"})
	refusal(t, "approve", err, codes.Unavailable, "RULE_NOT_SET")
	if now, err := p.backing.Get(t.Context(), a.Tenant, a.ID); err != nil || now.State != approvals.Approved {
		t.Errorf("%v, %v", now.State, err)
	}
}
