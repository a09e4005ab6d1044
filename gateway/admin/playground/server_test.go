package playground_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/playground"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// service returns a playground with the capabilities mail and weather, and the tenants acme, globex and idle, which is
// disabled; acme has weather alone. The calls end with the tenant and the key of their callers.
func service(t *testing.T) admin.Service {
	t.Helper()
	settings := map[string]*tenant.Settings{}
	for id, pattern := range map[string]string{"acme": "weather", "globex": "*", "idle": "*"} {
		grants, err := tenant.ParseGrants([]string{pattern})
		check.Must(t, err)
		settings[id] = &tenant.Settings{ID: id, Capabilities: grants, Disabled: id == "idle"}
	}
	directory := tenant.NewDirectory(nil)
	directory.Replace(settings)
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"mail": {Policy: call.Ask}, "weather": {Policy: call.Allow},
		"weather-eu": {Policy: call.Allow}})
	decider, err := policy.New(policy.Options{Source: tools})
	check.Must(t, err)
	return playground.New(playground.Config{Tools: tools, Decider: decider,
		Tenants: &tenant.Roster{Directory: directory}, Settings: directory.Settings,
		Serve: func(w http.ResponseWriter, _ *http.Request, who tenant.Identity, _ string) {
			_, _ = fmt.Fprint(w, "called for ", who.Tenant, " by ", who.Key, ", an operator: ", who.Operator)
		},
		Stream: func(_ context.Context, who tenant.Identity, _ string, _ metadata.MD,
			_ *docpb.InvokeRequest) (grpc.ServerStreamingClient[docpb.InvokeChunk], error) {
			return nil, status.Error(codes.Aborted, "called for "+who.Tenant)
		}})
}

// TestWhoseToolsAreCalled: an operator of one tenant sees and calls only the tools of that tenant. An operator of all
// tenants sees and calls those of each enabled tenant.
func TestWhoseToolsAreCalled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		of           string
		tenant       string
		status       int
		invoke, list string // what the responses have
		hides        string // what they have not
	}{
		{"", "acme", 200, "called for acme by operator ann, an operator: true", "weather", "mail"},
		{"", "globex", 200, "called for globex by operator ann", "mail", "idle"},
		{"", "idle", 403, "TENANT_DISABLED", "TENANT_DISABLED", "called"},
		{"", "hooli", 404, "TENANT_UNKNOWN", "TENANT_UNKNOWN", "called"},
		{"", "", 400, "TENANT_REQUIRED", "TENANT_REQUIRED", "called"},
		{"acme", "", 200, "called for acme by operator ann", "weather", "mail"},
		{"acme", "acme", 200, "called for acme by operator ann", "weather", "mail"},
		{"acme", "globex", 403, "OPERATOR_TENANT", "OPERATOR_TENANT", "called"},
	} {
		who := gatewaytest.Operator{Roles: operator.Admin, Tenants: []string{test.of}}
		web := gatewaytest.ServeGuarded(t, who, service(t))
		code, body := web.Ask(t, "POST", "/v1/playground:invoke",
			`{"tenant":"`+test.tenant+`","capability":"weather","tool":"x"}`)
		listed, tools := web.Ask(t, "GET", "/v1/playground/tools?tenant="+test.tenant, "")
		if code != test.status || listed != test.status || !strings.Contains(body, test.invoke) ||
			!strings.Contains(tools, test.list) || strings.Contains(body+tools, test.hides) {
			t.Errorf("operator of %q, tenant %q: %d %s; %d %s", test.of, test.tenant, code, body, listed, tools)
		}
	}
}

// TestPagesOfTools: the pages of a list have every capability once, also one whose name begins with that of another.
func TestPagesOfTools(t *testing.T) {
	t.Parallel()
	client := capgatepb.NewPlaygroundClient(gatewaytest.ServeOperators(t, service(t)).Conn)
	var all []string
	for token := ""; ; {
		page, err := client.ListPlaygroundTools(t.Context(), &capgatepb.ListPlaygroundToolsRequest{Tenant: "globex",
			PageSize: 1, PageToken: token})
		check.Must(t, err)
		for _, tool := range page.GetTools() {
			all = append(all, tool.GetCapability())
		}
		if token = page.GetNextPageToken(); token == "" || len(all) > 3 {
			break
		}
	}
	if got := strings.Join(all, " "); got != "mail weather weather-eu" {
		t.Error(got)
	}
}

// TestToolsByPolicy: a list has only the tools with the policy of the request, on each page.
func TestToolsByPolicy(t *testing.T) {
	t.Parallel()
	client := capgatepb.NewPlaygroundClient(gatewaytest.ServeOperators(t, service(t)).Conn)
	for policy, want := range map[string]string{"": "mail weather weather-eu of 3", "ask": "mail of 1",
		"allow": "weather weather-eu of 2", "block": "of 0"} {
		var all []string
		for token := ""; len(all) < 4; {
			page, err := client.ListPlaygroundTools(t.Context(), &capgatepb.ListPlaygroundToolsRequest{Tenant: "globex",
				Policy: policy, PageSize: 1, PageToken: token})
			check.Must(t, err)
			for _, tool := range page.GetTools() {
				all = append(all, tool.GetCapability())
			}
			if token = page.GetNextPageToken(); token == "" {
				all = append(all, fmt.Sprint("of ", page.GetTotalSize()))
				break
			}
		}
		if got := strings.Join(all, " "); got != want {
			t.Errorf("policy %q: %q, not %q", policy, got, want)
		}
	}
	_, err := client.ListPlaygroundTools(t.Context(), &capgatepb.ListPlaygroundToolsRequest{Tenant: "globex",
		Policy: "deny"})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(status.Convert(err).Message(), "policy") {
		t.Error(err)
	}
}

// TestInvokeTool: a call over gRPC is checked as one over JSON is.
func TestInvokeTool(t *testing.T) {
	t.Parallel()
	client := capgatepb.NewPlaygroundClient(gatewaytest.ServeOperators(t, service(t)).Conn)
	type request = capgatepb.InvokeToolRequest
	for name, test := range map[string]struct {
		change func(*request)
		code   codes.Code
	}{
		"good":    {func(*request) {}, codes.Aborted},
		"no tool": {func(r *request) { r.Tool = "" }, codes.InvalidArgument},
		"a long capability": {func(r *request) {
			r.Capability = strings.Repeat("a", 257)
		}, codes.InvalidArgument},
		"an approval with a line feed": {func(r *request) { r.ApprovalId = "a\nb" }, codes.InvalidArgument},
		"arguments that are a list":    {func(r *request) { r.Arguments = "[]" }, codes.InvalidArgument},
		"arguments of two readings":    {func(r *request) { r.Arguments = `{"a":1,"a":2}` }, codes.InvalidArgument},
		"blank arguments":              {func(r *request) { r.Arguments = " \n" }, codes.Aborted},
		"a long wait":                  {func(r *request) { r.Wait = 3601 }, codes.InvalidArgument},
		"a disabled tenant":            {func(r *request) { r.Tenant = "idle" }, codes.PermissionDenied},
	} {
		req := &request{Tenant: "acme", Capability: "weather", Tool: "x"}
		test.change(req)
		stream, err := client.InvokeTool(t.Context(), req)
		check.Must(t, err)
		if _, err = stream.Recv(); status.Code(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}
