package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// TestArgumentsAreChecked: arguments are checked against the tool's schema before they reach a backend:
// compressed or not, unary and streaming, and only in calls that are allowed.
func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(
		`{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}`))
	check.Must(t, err)
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Validate: true, Policy: call.Allow,
		Manifest: &manifest.Manifest{Tools: []manifest.Tool{
			{Name: gatewaytest.Echo, Schema: schema, Recommends: true, Recommended: call.Allow},
			{Name: "blocked", Schema: schema, Recommends: true, Recommended: call.Block},
		}}}})
	for name, rules := range map[string]policy.Store{"manifest": nil, "rules": &ruled{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := behindRules(t, rules, tools)
			for _, test := range []struct {
				tool, args      string
				code            codes.Code
				reason, pointer string
			}{
				{gatewaytest.Echo, `{"n": 1}`, codes.OK, "", ""},
				{gatewaytest.Echo, `{"n": "secret"}`, codes.InvalidArgument, "ARGUMENTS_INVALID", "/n"},
				{gatewaytest.Echo, ``, codes.InvalidArgument, "ARGUMENTS_INVALID", ""},
				{gatewaytest.Echo, `{"n": 1, "n": 2}`, codes.InvalidArgument, "AMBIGUOUS_ARGUMENTS", ""},
				{gatewaytest.Echo, strings.Repeat("[", 200), codes.InvalidArgument, "ARGUMENTS_INVALID", ""},
				{"blocked", `{"n": "secret"}`, codes.PermissionDenied, "TOOL_BLOCKED", ""},
				{"other", `{"n": "secret"}`, codes.NotFound, "TOOL_UNKNOWN", ""},
			} {
				for way, opts := range map[string][]grpc.CallOption{"plain": nil,
					"compressed": {grpc.UseCompressor(gzip.Name)}} {
					_, unary := f.client.Invoke(to(t.Context(), "caps"), request(test.tool, test.args), opts...)
					_, stream := f.client.StreamInvoke(to(t.Context(), "caps"), request(test.tool, test.args), opts...)
					for _, err := range []error{unary, stream} {
						info := errorInfo(err)
						if status.Code(err) != test.code || info.GetReason() != test.reason ||
							info.GetMetadata()["pointer"] != test.pointer ||
							err != nil && strings.Contains(err.Error(), "secret") {
							t.Errorf("%s, %s: %v, %v", test.args, way, err, info)
						}
					}
				}
			}
			// the tenant's rules and the global ones, for each of three tools
			if r, ok := rules.(*ruled); ok && r.questions() != 6 {
				t.Errorf("got %d lookups in the store", r.questions())
			}
			if n := len(f.capability.Seen()); n != 4 {
				t.Errorf("%d calls at the backend", n)
			}
			resp, body := post(t, f.gateway.HTTP1(t), f.gateway, "caps", `{"tool_name":"echo","args":{"n":"secret"}}`)
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"pointer":"/n"`) ||
				strings.Contains(body, "secret") {
				t.Errorf("JSON: %s %s", resp.Status, body)
			}
		})
	}
}

// TestArgumentsOfUnknownSchemasAreRejected: while a fleet's tools are unknown, because its backends have sent no
// manifest yet, tool calls are rejected, and other calls are not.
func TestArgumentsOfUnknownSchemasAreRejected(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*manifest.Manifest{"no manifest": nil,
		"not discovered": {Dynamic: true, DiscoveryTool: "list_tools"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools := catalog.New(catalog.Options{})
			tools.Replace(map[string]catalog.Declaration{"caps": {Validate: true, Policy: call.Allow, Manifest: m}})
			f := behindRules(t, nil, tools)
			for way, opts := range map[string][]grpc.CallOption{"plain": nil,
				"compressed": {grpc.UseCompressor(gzip.Name)}} {
				_, err := f.client.Invoke(to(t.Context(), "caps"), request(gatewaytest.Echo, `{}`), opts...)
				if info := errorInfo(err); status.Code(err) != codes.FailedPrecondition ||
					info.GetReason() != "SCHEMA_UNKNOWN" {
					t.Errorf("%s: %v, %v", way, err, info)
				}
			}
			if n := len(f.capability.Seen()); n != 0 {
				t.Errorf("%d calls at the backend", n)
			}
			if ready, _, err := f.client.Healthcheck(to(t.Context(), "caps")); err != nil || !ready {
				t.Errorf("a call of no tool: ready %v, %v", ready, err)
			}
		})
	}
}
