package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestCredentialsAreEnforced: credentials are checked before a backend receives anything: compressed or not,
// unary and streaming, with the decision cached or not, and where metadata names the capability. Neither
// responses nor the log contain anything that was sent.
func TestCredentialsAreEnforced(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(`{}`))
	check.Must(t, err)
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Credentials: credentials.New([]string{"API_KEY", "REGION"}),
		Manifest: &manifest.Manifest{Tools: []manifest.Tool{
			{Name: gatewaytest.Echo, Schema: schema, Recommends: true, Recommended: call.Allow},
			{Name: "asked", Schema: schema, Recommends: true, Recommended: call.Ask},
			{Name: "blocked", Schema: schema, Recommends: true, Recommended: call.Block},
		}}}})
	for name, rules := range map[string]policy.Store{"manifest": nil, "rules": &ruled{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := behindRules(t, rules, tools)
			seen := 0
			for _, test := range []struct {
				tool, config string
				code         codes.Code
				reason, says string
			}{
				{gatewaytest.Echo, ``, codes.OK, "", ""},
				{gatewaytest.Echo, `{"REGION": {"x": "hush"}, "API_KEY": "hush"}`, codes.OK, "", ""},
				{gatewaytest.Echo, `{"hush": 1, "API_KEY": "hush"}`, codes.InvalidArgument, "CONFIG_INVALID",
					"has 1 names that are not declared; the capability's manifest declares API_KEY, REGION"},
				{gatewaytest.Echo, `{"API_KEY": "hush", "API\u005fKEY": "hush"}`, codes.InvalidArgument,
					"CONFIG_INVALID", "has API_KEY twice"},
				{gatewaytest.Echo, `"hush"`, codes.InvalidArgument, "CONFIG_INVALID", "is not a JSON object"},
				{gatewaytest.Echo, `hush`, codes.InvalidArgument, "CONFIG_INVALID", "is not JSON"},
				{gatewaytest.Echo, "\xff", codes.InvalidArgument, "CONFIG_INVALID", "is not valid UTF-8"},
				{gatewaytest.Echo, strings.Repeat("[", 200), codes.InvalidArgument, "CONFIG_INVALID",
					"is more than 100 levels deep"},
				{"asked", `{"hush": 1}`, codes.InvalidArgument, "CONFIG_INVALID", "names"},
				{"blocked", `{"hush": 1}`, codes.PermissionDenied, "TOOL_BLOCKED", ""},
			} {
				for way, opts := range map[string][]grpc.CallOption{"plain": nil,
					"compressed": {grpc.UseCompressor(gzip.Name)}} {
					req := &docpb.InvokeRequest{CapabilityId: "caps", ToolName: test.tool,
						ConfigJson: []byte(test.config)}
					_, unary := f.client.Invoke(to(t.Context(), "caps"), req, opts...)
					_, stream := f.client.StreamInvoke(t.Context(), req, opts...)
					for _, err := range []error{unary, stream} {
						if test.code == codes.OK {
							seen++
						}
						info := errorInfo(err)
						if status.Code(err) != test.code || info.GetReason() != test.reason ||
							!strings.Contains(status.Convert(err).Message(), test.says) ||
							strings.Contains(fmt.Sprint(err, info), "hush") {
							t.Errorf("%.80s, %s: %v, %v", test.config, way, err, info)
						}
					}
				}
			}
			if n := len(f.capability.Seen()); n != seen {
				t.Errorf("%d calls at the backend, want %d", n, seen)
			}
			client := f.gateway.HTTP1(t)
			resp, body := post(t, client, f.gateway, "caps",
				`{"tool_name":"echo","config":{"hush":"hush","REGION":"eu"}}`)
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"reason":"CONFIG_INVALID"`) ||
				strings.Contains(body, "hush") {
				t.Errorf("JSON: %s %s", resp.Status, body)
			}
			if resp, body := post(t, client, f.gateway, "caps",
				`{"tool_name":"echo","config":{"REGION":"hush"}}`); resp.StatusCode != http.StatusOK {
				t.Errorf("JSON: %s %s", resp.Status, body)
			}
			if strings.Contains(f.gateway.Log.String(), "hush") {
				t.Error("the log contains the request")
			}
		})
	}
}

// TestConfigIsNotCheckedByDefault: if no fleet checks config_json, it may be anything, even invalid JSON.
func TestConfigIsNotCheckedByDefault(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	for _, config := range []string{"\xff", "hush", `{"a": 1, "a": 2}`} {
		req := &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ConfigJson: []byte(config)}
		if _, err := f.client.Invoke(t.Context(), req); err != nil {
			t.Errorf("%q: %v", config, err)
		}
	}
	for _, seen := range f.capability.Seen() {
		if len(seen.Request.GetConfigJson()) == 0 {
			t.Error("the backend got no config_json")
		}
	}
}
