package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// manifestFileOf returns a manifest with one tool, echo, that is recommended to be treated as policy says and
// takes an integer n. It declares the credential API_KEY.
func manifestFileOf(t *testing.T, capability, policy string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	check.Must(t, os.WriteFile(file, fmt.Appendf(nil, `id: %s
image: %s:1
tools:
  - name: echo
    description: Says what it hears.
    input_schema: {type: object, properties: {n: {type: integer}}}
    recommended_policy: %s
credentials: [{name: API_KEY, scope: system}]
`, capability, capability, policy), 0o600))
	return file
}

// trustingConfig is a configuration in which backends may send manifests, and only manifests permit calls.
func trustingConfig(t *testing.T, more string) string {
	t.Helper()
	return writeConfig(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
drain: {delay: 0s, timeout: 20s}
registration: {allow: [127.0.0.0/8], manifests: true, capabilities: ["gen-*"]}
%s
fleets: [{capability: caps, backends: [], validate_arguments: true, enforce_credentials: true, slow_start: 0s,
    health: {interval: 20s, timeout: 20s}}]
`, more))
}

// The recommendations of a backend's manifest apply at all replicas until another manifest replaces it or it is
// removed, also while Redis is unavailable.
func TestRegisterManifest(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	file := trustingConfig(t, "redis: {url: '"+redis.URL()+"', timeout: 10s}")
	a, publicA, adminA := serve(t, nil, "--config", file)
	b, publicB, adminB := serve(t, nil, "--config", file)
	clients := []docpb.CapabilityClient{dial(t, publicA), dial(t, publicB)}
	all := func(want codes.Code) {
		t.Helper()
		for _, client := range clients {
			until(t, client, "", gatewaytest.Echo, want)
		}
	}
	addr := gatewaytest.NewCapability("b").Serve(t, call.Doc).Addr
	registrar := register(t, adminA, addr)
	waitBackends(t, adminB, 1)
	all(codes.PermissionDenied)

	registrar.stop(t)
	registrar = register(t, adminA, addr, "--manifest", manifestFileOf(t, "caps", "allow"), "--ttl", "3s")
	all(codes.OK)
	if exit, out, errs := capgatePolicy(t, adminB, "explain", "caps", gatewaytest.Echo); exit != 0 ||
		!strings.HasPrefix(out, "allow, by manifest\n") {
		t.Errorf("got %d %s %s", exit, out, errs)
	}
	for _, client := range clients {
		_, err := client.Invoke(t.Context(),
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte(`{"n": "one"}`)})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("bad arguments: %v", err)
		}
		for config, want := range map[string]codes.Code{`{"API_KEY": "hush"}`: codes.OK,
			`{"hush": 1}`: codes.InvalidArgument} {
			_, err := client.Invoke(t.Context(),
				&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ConfigJson: []byte(config)})
			if status.Code(err) != want {
				t.Errorf("%s: %v", config, err)
			}
		}
	}
	redis.Kill()
	for _, admin := range []string{adminA, adminB} {
		waitMetric(t, "http://"+admin+"/metrics", "capgate_registry_stale_seconds", func(s float64) bool {
			return s > 0
		})
	}
	all(codes.OK)
	redis.Restart() // Redis restarts empty, and the manifest is sent again

	// The latest registration of an address determines its manifest.
	another := register(t, adminB, addr, "--manifest", manifestFileOf(t, "caps", "ask"))
	all(codes.FailedPrecondition)
	if exit := registrar.wait(t); exit != exitRefused ||
		!strings.Contains(registrar.stderr.String(), "LEASE_SUPERSEDED") {
		t.Errorf("the former registrar: exit status %d, %s", exit, registrar.stderr.String())
	}
	another.stop(t)
	all(codes.PermissionDenied)
	a.stop(t)
	b.stop(t)
}

// Of several manifests, the one of most backends applies.
func TestRegisterManifests(t *testing.T) {
	t.Parallel()
	p, public, admin := serve(t, nil, "--config", trustingConfig(t, ""))
	client := dial(t, public)
	capability := gatewaytest.NewCapability("b")
	allow, ask := manifestFileOf(t, "caps", "allow"), manifestFileOf(t, "caps", "ask")
	first := register(t, admin, capability.Serve(t, call.Doc).Addr, "--manifest", allow)
	until(t, client, "", gatewaytest.Echo, codes.OK)
	two, three := capability.Serve(t, call.Doc).Addr, capability.Serve(t, call.Doc).Addr
	second, third := register(t, admin, two, "--manifest", ask), register(t, admin, three, "--manifest", ask)
	until(t, client, "", gatewaytest.Echo, codes.FailedPrecondition)
	second.stop(t)
	third.stop(t)
	until(t, client, "", gatewaytest.Echo, codes.OK)
	first.stop(t)
	until(t, client, "", gatewaytest.Echo, codes.PermissionDenied)
	p.stop(t)
}

// TestRegisterManifestWithoutFleet: a capability without a fleet may send its manifest too.
func TestRegisterManifestWithoutFleet(t *testing.T) {
	t.Parallel()
	p, public, admin := serve(t, nil, "--config", trustingConfig(t, ""))
	addr := gatewaytest.NewCapability("b").Serve(t, call.Doc).Addr
	registrar := start(t, []string{"CAPGATE_ADMIN=" + admin}, "register", "gen-1", addr,
		"--manifest", manifestFileOf(t, "gen-1", "allow"))
	registrar.stderr.wait(t, registrar, "msg=registered")
	client, req := dial(t, public), &docpb.InvokeRequest{CapabilityId: "gen-1", ToolName: gatewaytest.Echo}
	check.Until(t, "the registered backend", func() (bool, string) {
		_, err := client.Invoke(t.Context(), req)
		return err == nil, fmt.Sprint(err)
	})
	req.ToolName = "another"
	if _, err := client.Invoke(t.Context(), req); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	registrar.stop(t)
	p.stop(t)
}

func TestRegisterManifestRefused(t *testing.T) {
	t.Parallel()
	p, _, admin := serve(t, nil, "--config", registryConfig(t, ""))
	bad := writeConfig(t, "id: caps\nimage: a b\n")
	for _, test := range []struct{ file, says string }{
		{manifestFileOf(t, "caps", "allow"), "registration.manifests is false"},
		{manifestFileOf(t, "others", "allow"), "id: is others, want caps"},
		{bad, bad + ":2: image: "},
		{filepath.Join(t.TempDir(), "none"), "cannot be read"},
	} {
		exit, stdout, stderr := runProgram(t, nil, "register", "--admin", admin, "caps", "127.0.0.1:1", "--manifest",
			test.file)
		if exit != exitRefused || stdout != "" || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: %d %s; stdout %+v", test.says, exit, stderr, stdout)
		}
	}
	p.stop(t)
}
