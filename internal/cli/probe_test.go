package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// capgateRun runs a command in this process as a shell would.
func capgateRun(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	exit = run(t.Context(), args, stdio{strings.NewReader(""), &out, &errs})
	return exit, out.String(), errs.String()
}

// Listeners that are no container, and a word of the problem that names each.
func TestProbeRecognizesOtherServers(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	check.Must(t, os.WriteFile(trusted, []byte(authority.PEM), 0o600))
	secure := grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{authority.Server(t)},
		MinVersion: tls.VersionTLS12}))
	clear := gatewaytest.NewCapability("clear").Serve(t, call.Doc).Addr
	inTLS := gatewaytest.NewCapability("tls").Serve(t, call.Doc, secure).Addr
	nothing := gatewaytest.Serve(t, func(*grpc.Server) {}).Addr
	for name, test := range map[string]struct {
		args []string
		exit int
		kind string
		want string
	}{
		"nobody": {[]string{check.ClosedPort(t)}, 3, "nothing_listens", "nothing listens at 127.0.0.1:"},
		"no host": {[]string{"no-host.invalid:50051"}, 3, "unresolved",
			"the host name of no-host.invalid:50051 does not exist"},
		"hangs up": {[]string{gatewaytest.Unreachable(t)}, 3, "not_http2", "does not speak HTTP/2"},
		"says nothing": {[]string{mute(t), "--timeout", "300ms"}, 3, "not_http2",
			"does not answer in HTTP/2 in time"},
		"HTTP/1":                {[]string{web(t, false)}, 3, "not_http2", "speaks HTTP/1 and not HTTP/2"},
		"HTTP/2 and no gRPC":    {[]string{web(t, true)}, 1, "no_dialect", "no dialect of the capability protocol"},
		"gRPC and nothing else": {[]string{nothing}, 1, "no_dialect", "no dialect of the capability protocol"},
		"silent calls": {[]string{gatewaytest.Silent(t), "--timeout", "300ms"}, 1, "no_dialect",
			"does not answer calls: no answer in time"},
		"TLS is needed":     {[]string{inTLS}, 3, "tls_needed", "speaks TLS: use --tls"},
		"TLS is not spoken": {[]string{clear, "--tls"}, 3, "not_tls", "does not speak TLS: leave out --tls"},
		"not trusted":       {[]string{inTLS, "--tls"}, 3, "certificate", "an authority that is not trusted"},
		"trusted":           {[]string{inTLS, "--tls-ca", trusted}, 0, "", `"dialect": "doc"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exit, stdout, stderr := capgateRun(t, append([]string{"probe", "-o", "json"}, test.args...)...)
			var got probeReport
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || stderr != "" {
				t.Fatalf("%v: %q, %q", err, stdout, stderr)
			}
			kind := ""
			if got.Problem != nil {
				kind = string(got.Problem.Kind)
			}
			if exit != test.exit || kind != test.kind || !strings.Contains(stdout, test.want) {
				t.Errorf("exit status %d, %s", exit, stdout)
			}
		})
	}
}

func TestProbeCommandLines(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"HOST:PORT is missing":        {},
		`"weather" is not HOST:PORT`:  {"weather"},
		"unexpected argument":         {"a:1", "b:2"},
		"--timeout must be more than": {"a:1", "--timeout", "0"},
		"--tls-ca: ":                  {"a:1", "--tls-ca", "no-such-file"},
		"--manifest: ":                {"a:1", "--manifest", "no-such-file"},
	} {
		if exit, stdout, stderr := capgateRun(t, append([]string{"probe"}, args...)...); exit != exitUsage ||
			stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, %q, %q", args, exit, stdout, stderr)
		}
	}
	if exit, stdout, _ := capgateRun(t, "probe", "-h"); exit != 0 || !strings.Contains(stdout, "Exit status") {
		t.Errorf("exit status %d, %q", exit, stdout)
	}
}

func TestProbeFindsEveryDialect(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("all")
	capability.Lists = func() ([]byte, string, error) {
		return []byte(`[{"name":"look","description":"Looks.\nTwice.","input_schema":{"type":"object"},` +
			`"recommended_policy":"ask"}]`), "", nil
	}
	addr := gatewaytest.Serve(t, func(s *grpc.Server) {
		docpb.RegisterCapabilityServer(s, capability)
		livepb.RegisterCapabilityServer(s, tired{})
		legacypb.RegisterCapabilityServiceServer(s, legacyOnly{})
	}).Addr
	exit, stdout, stderr := capgateRun(t, "probe", addr)
	want := `DIALECT  SERVICE                               HEALTH         SAYS
doc      selu.capability.Capability            ready          -
live     selu.capability.v1.Capability         not ready      warming up
legacy   selu.capability.v1.CapabilityService  no health RPC  -

TOOL  RECOMMENDED  DESCRIPTION
look  ask          Looks.
`
	if exit != 0 || stdout != want || stderr != "" {
		t.Errorf("exit status %d, %q\n%s", exit, stderr, stdout)
	}

	tiredAddr := gatewaytest.Serve(t, func(s *grpc.Server) { livepb.RegisterCapabilityServer(s, tired{}) }).Addr
	if exit, stdout, _ = capgateRun(t, "probe", tiredAddr); exit != exitRefused ||
		!strings.Contains(stdout, "warming up") {
		t.Errorf("exit status %d\n%s", exit, stdout)
	}
	if exit, stdout, _ = capgateRun(t, "probe", addr, "--manifest", "../../examples/weather"); exit != 0 ||
		!strings.Contains(stdout, "export_report") {
		t.Errorf("exit status %d\n%s", exit, stdout)
	}
}

// tired is a capability of the live dialect that is not ready.
type tired struct {
	livepb.UnimplementedCapabilityServer
}

func (tired) Healthcheck(context.Context, *livepb.HealthRequest) (*livepb.HealthResponse, error) {
	return &livepb.HealthResponse{Message: "warming\tup"}, nil
}

// legacyOnly has tools and no health call, which is optional in the legacy dialect.
type legacyOnly struct {
	legacypb.UnimplementedCapabilityServiceServer
}

func (legacyOnly) Invoke(context.Context, *legacypb.InvokeRequest) (*legacypb.InvokeResponse, error) {
	return &legacypb.InvokeResponse{Error: "no such tool"}, nil
}

// mute accepts connections and sends nothing.
func mute(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = ln.Close() }) // the backlog accepts connections; the program does not
	return ln.Addr().String()
}

// web returns a web server that is not a container.
func web(t *testing.T, http2 bool) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>"))
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(http2)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}
