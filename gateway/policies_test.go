package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// ruled is a store of rules that a test sets.
type ruled struct {
	mu    sync.Mutex
	rules map[policy.Name]call.Verdict
	err   error
	count int           // number of lookups
	gate  chan struct{} // if not nil, lookups wait for it
	asked chan struct{} // receives a value for each waiting lookup
}

// Find returns the rules as of its start, however long the lookup takes.
func (r *ruled) Find(ctx context.Context, tenant string, names []policy.Name) ([]policy.Found, error) {
	found, err := r.read(tenant, names)
	if r.gate != nil {
		select {
		case r.asked <- struct{}{}:
		default:
		}
		select {
		case <-r.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return found, err
}

func (r *ruled) read(tenant string, names []policy.Name) ([]policy.Found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	found := make([]policy.Found, len(names))
	for i, n := range names {
		if tenant != "" {
			found[i].Verdict, found[i].Present = r.rules[n]
		}
	}
	return found, r.err
}

func (r *ruled) set(n policy.Name, v call.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules[n] = v
}

func (r *ruled) questions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// behindRules returns a front whose fleet has the policy block and recommends nothing.
func behindRules(t *testing.T, rules policy.Store, source policy.Source) *front {
	t.Helper()
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, call.Doc)
	if source == nil {
		source = catalog.New(catalog.Options{})
	}
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}},
		Policy: policy.Options{Store: rules, Source: source, Timeout: check.Patience}, ToolNames: namesIn(source),
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, call.Doc)
	return f
}

// namesIn returns the names of the tools that a catalog knows.
func namesIn(source policy.Source) func(string) []string {
	return func(capability string) (names []string) {
		if known, is := source.(*catalog.Catalog); is {
			tools, _ := known.Tools(capability)
			for i := range tools {
				names = append(names, tools[i].Name)
			}
		}
		return names
	}
}

func on(capability, tool string) policy.Name {
	return policy.Name{Capability: capability, Tool: tool}
}

// TestRulesDecide: rules apply over gRPC, unary and streaming, compressed or not, and over JSON.
func TestRulesDecide(t *testing.T) {
	t.Parallel()
	ann := on("caps", gatewaytest.Echo)
	ann.User = "ann"
	bot := on("caps", gatewaytest.Echo)
	bot.Agent = "bot"
	f := behindRules(t, &ruled{rules: map[policy.Name]call.Verdict{
		ann: call.Allow, bot: call.Ask, on("caps", gatewaytest.Echo): call.Block, on("caps", "other"): call.Allow,
	}}, nil)
	for _, test := range []struct {
		name, user, agent, tool string
		code                    codes.Code
		reason, level           string
		http                    int
	}{
		{"her own rule", "ann", "", gatewaytest.Echo, codes.OK, "", "", http.StatusOK},
		{"the tenant's", "bob", "", gatewaytest.Echo, codes.PermissionDenied, "TOOL_BLOCKED", "tenant",
			http.StatusForbidden},
		{"the agent's", "bob", "bot", gatewaytest.Echo, codes.FailedPrecondition, "APPROVAL_REQUIRED", "tenant+agent",
			http.StatusBadRequest},
		{"hers before the agent's", "ann", "bot", gatewaytest.Echo, codes.OK, "", "", http.StatusOK},
		{"nobody's", "", "", "unheard-of", codes.PermissionDenied, "TOOL_BLOCKED", "default", http.StatusForbidden},
		{"no tool", "", "", "", codes.PermissionDenied, "TOOL_BLOCKED", "default", http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx := metadata.AppendToOutgoingContext(to(t.Context(), "caps"), "x-user-id", test.user, "x-agent-id",
				test.agent)
			check := func(way string, err error) {
				t.Helper()
				info := errorInfo(err)
				if status.Code(err) != test.code || info.GetReason() != test.reason ||
					info.GetMetadata()["level"] != test.level {
					t.Errorf("%s: %v, %v", way, err, info)
				}
			}
			for way, opts := range map[string][]grpc.CallOption{"plain": nil,
				"compressed": {grpc.UseCompressor(gzip.Name)}} {
				_, err := f.client.Invoke(ctx, request(test.tool, `{}`), opts...)
				check(way, err)
				_, err = f.client.StreamInvoke(ctx, request(test.tool, `{}`), opts...)
				check(way+" stream", err)
			}
			if test.tool == "" {
				return // JSON rejects it earlier
			}
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost,
				f.gateway.URL("/v1/capabilities/caps/invoke"),
				strings.NewReader(`{"tool_name":"`+test.tool+`","args":{}}`))
			req.Header.Set("x-user-id", test.user)
			req.Header.Set("x-agent-id", test.agent)
			resp, err := f.gateway.HTTP1(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != test.http {
				t.Errorf("JSON: %s", resp.Status)
			}
		})
	}
	for _, s := range f.capability.Seen() {
		if s.Metadata.Get("x-user-id") != nil || s.Metadata.Get("x-agent-id") != nil {
			t.Errorf("the backend got the caller's identity: %v", s.Metadata)
		}
	}
}

// TestFilesNeedNoTool: methods other than those of tools are not subject to rules.
func TestFilesNeedNoTool(t *testing.T) {
	t.Parallel()
	f := behindRules(t, &ruled{}, nil)
	up, err := f.client.Upload(to(t.Context(), "caps"), gatewaytest.File{Name: "a", Data: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Download(to(t.Context(), "caps"), up.ID); err != nil {
		t.Error(err)
	}
	if ready, _, err := f.client.Healthcheck(to(t.Context(), "caps")); !ready || err != nil {
		t.Error(ready, err)
	}
}

// TestManifestsDecide: without a store of rules, manifests and fleets decide.
func TestManifestsDecide(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Manifest: &manifest.Manifest{Tools: []manifest.Tool{
		{Name: gatewaytest.Echo, Schema: schema, Recommends: true, Recommended: call.Allow},
		{Name: "ask", Schema: schema, Recommends: true, Recommended: call.Ask},
	}}}})
	f := behindRules(t, nil, tools)
	for tool, want := range map[string]codes.Code{gatewaytest.Echo: codes.OK, "ask": codes.FailedPrecondition,
		"else": codes.NotFound} {
		for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			if _, err := f.client.Invoke(to(t.Context(), "caps"), request(tool, `{}`),
				opts...); status.Code(err) != want {
				t.Errorf("%s: %v", tool, err)
			}
		}
	}
	tools.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Allow}})
	if _, err := f.client.Invoke(t.Context(), request("else", `{}`)); errorInfo(err) != nil {
		t.Errorf("after the change: %v", err)
	}
}

// TestACallWaitsForItsDecision: a call waits for its decision, and other calls on the connection do not.
func TestACallWaitsForItsDecision(t *testing.T) {
	t.Parallel()
	rules := &ruled{gate: make(chan struct{}), asked: make(chan struct{}, 1),
		rules: map[policy.Name]call.Verdict{on("caps", gatewaytest.Echo): call.Allow}}
	f := behindRules(t, rules, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := f.client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
		ended <- err
	}()
	check.Received(t, rules.asked, "the question")
	left, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := f.client.Invoke(left, request("other", `{}`))
		gone <- err
	}()
	check.Received(t, rules.asked, "the second question")
	if ready, _, err := f.client.Healthcheck(to(t.Context(), "caps")); !ready || err != nil {
		t.Error(ready, err) // on the same connection
	}
	leave()
	if err := check.Received(t, gone, "the end of the call of who leaves"); status.Code(err) != codes.Canceled {
		t.Errorf("the caller that left: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("the call did not wait: %v", err)
	default:
	}
	close(rules.gate)
	if err := check.Received(t, ended, "the end of the call"); err != nil {
		t.Error(err)
	}
	if seen := f.capability.Seen(); len(seen) != 1 {
		t.Errorf("%d calls at the backend", len(seen))
	}
}

// TestWithoutAnAnswerACallIsRefused: without a decision the call is rejected with a retry delay.
func TestWithoutAnAnswerACallIsRefused(t *testing.T) {
	t.Parallel()
	f := behindRules(t, &ruled{err: context.DeadlineExceeded,
		rules: map[policy.Name]call.Verdict{on("caps", policy.Any): call.Allow}}, nil)
	_, err := f.client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
	if status.Code(err) != codes.Unavailable || errorInfo(err).GetReason() != "POLICY_UNKNOWN" {
		t.Errorf("got %v, %v", err, errorInfo(err))
	}
	if len(f.capability.Seen()) > 0 {
		t.Error("the backend was called")
	}
}

func TestUsersOfACallMustAgree(t *testing.T) {
	t.Parallel()
	f := behindRules(t, &ruled{}, nil)
	for reason, md := range map[string][]string{
		"IDENTITY_CONFLICT": {"x-user-id", "ann", "x-user-id", "bob"},
		"IDENTITY_INVALID":  {"x-agent-id", strings.Repeat("a", 257)},
	} {
		_, err := f.client.Invoke(metadata.AppendToOutgoingContext(t.Context(), md...), request(gatewaytest.Echo, `{}`))
		if status.Code(err) != codes.InvalidArgument || errorInfo(err).GetReason() != reason {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// TestDecisionsAreRecorded: the log has each decision with its caller.
func TestDecisionsAreRecorded(t *testing.T) {
	t.Parallel()
	f := behindRules(t, &ruled{rules: map[policy.Name]call.Verdict{on("caps", policy.Any): call.Allow}}, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user-id", "ann", "x-agent-id", "bot")
	for range 2 {
		if _, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	for i, line := range f.gateway.Log.Calls(t, 2) {
		for key, want := range map[string]any{"policy": "allow", "policy_level": "tenant", "policy_cached": i == 1,
			"user": "ann", "agent": "bot"} {
			if got := line[key]; got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
	}
	_, text := f.gateway.Admin(t, "/metrics")
	for _, want := range []string{
		`capgate_policy_decisions_total{cached="false",decision="allow",level="tenant"} 1`,
		`capgate_policy_decisions_total{cached="true",decision="allow",level="tenant"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}
