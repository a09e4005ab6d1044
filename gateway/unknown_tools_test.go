package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// TestMisspeltTools: the error of a call of an unknown tool suggests the tool that was probably meant, if its
// caller may call it, whatever allows the tools of the capability.
func TestMisspeltTools(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(`{"type": "object"}`))
	check.Must(t, err)
	all := []manifest.Tool{{Name: gatewaytest.Echo, Schema: schema, Recommends: true, Recommended: call.Allow},
		{Name: "erase", Schema: schema, Recommends: true, Recommended: call.Block}}
	for name, d := range map[string]struct {
		catalog.Declaration
		rules policy.Store
	}{
		"recommendations":            {catalog.Declaration{Manifest: &manifest.Manifest{Tools: all}}, nil},
		"recommendations, and rules": {catalog.Declaration{Manifest: &manifest.Manifest{Tools: all}}, &ruled{}},
		"checked arguments": {catalog.Declaration{Policy: call.Allow, Validate: true,
			Manifest: &manifest.Manifest{Tools: all}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools := catalog.New(catalog.Options{})
			tools.Replace(map[string]catalog.Declaration{"caps": d.Declaration})
			f := behindRules(t, d.rules, tools)
			_, unary := f.client.Invoke(to(t.Context(), "caps"), request("ecoh", `{}`))
			_, stream := f.client.StreamInvoke(to(t.Context(), "caps"), request("ecoh", `{}`))
			for _, err := range []error{unary, stream} {
				if status.Code(err) != codes.NotFound || errorInfo(err).GetReason() != "TOOL_UNKNOWN" ||
					!strings.Contains(err.Error(), `no tool "ecoh"; did you mean "echo"?; you may call echo`) {
					t.Errorf("got %v", err)
				}
			}
			resp, body := post(t, f.gateway.HTTP1(t), f.gateway, "caps", `{"tool_name":"erasse","args":{}}`)
			if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, `"reason":"TOOL_UNKNOWN"`) ||
				strings.Contains(body, `"erase"`) {
				t.Errorf("JSON: %s %s", resp.Status, body)
			}
			if n := len(f.capability.Seen()); n != 0 {
				t.Errorf("%d calls at the backend", n)
			}
		})
	}
}
