package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/weather"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// startCapability serves a capability in place of the gateway that capgate invoke expects: both speak the same
// protocol.
func startCapability(t *testing.T, capability docpb.CapabilityServer, opts ...grpc.ServerOption) (addr string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Must(t, err)
	srv := grpc.NewServer(opts...)
	docpb.RegisterCapabilityServer(srv, capability)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := check.Received(t, served, "the end of serving"); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

func startWeather(t *testing.T) (addr string) {
	t.Helper()
	now := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	capability, err := weather.New(weather.Config{Now: func() time.Time { return now }})
	check.Must(t, err)
	return startCapability(t, capability)
}

// invokeWith runs the command and returns all its output.
func invokeWith(t *testing.T, stdin string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	exit = run(t.Context(), append([]string{"invoke"}, args...), stdio{strings.NewReader(stdin), &out, &errs})
	return exit, out.String(), errs.String()
}

func TestInvokePrintsTheResult(t *testing.T) {
	t.Parallel()
	addr := startWeather(t)
	berlin := `{"location":"Berlin"}`
	for name, tc := range map[string]struct {
		stdin string
		args  []string
	}{
		"flags last":    {"", []string{"weather", "get_current_weather", berlin, "--addr", addr}},
		"flags first":   {"", []string{"--addr=" + addr, "--timeout", "1m", "weather", "get_current_weather", berlin}},
		"flags between": {"", []string{"weather", "--addr", addr, "get_current_weather", "--session", "s1", berlin}},
		"no timeout":    {"", []string{"weather", "get_current_weather", berlin, "--addr", addr, "--timeout", "0"}},
		"stdin":         {" " + berlin + "\n", []string{"weather", "get_current_weather", "-", "--addr", addr}},
	} {
		exit, stdout, stderr := invokeWith(t, tc.stdin, tc.args...)
		var got struct{ Location, Date string }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || exit != 0 || stderr != "" {
			t.Errorf("%s: exit %d, %v, stdout %q, stderr %q", name, exit, err, stdout, stderr)
		}
		if got.Location != "Berlin" || got.Date != "2026-03-01" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestInvokeWithAPipeAndASocket: the file with the key may be a pipe, as in --key-file <(pass show capgate),
// and the address a unix socket.
func TestInvokeWithAPipeAndASocket(t *testing.T) {
	t.Parallel()
	key := tenant.Credential(tenant.NewCredential())
	read, write, err := os.Pipe()
	check.Must(t, err)
	_, err = write.WriteString(key + "\n")
	check.Must(t, err)
	check.Must(t, write.Close())
	defer read.Close()
	dir, err := os.MkdirTemp("", "capgate") // the names of sockets are short
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	check.Must(t, err)
	shown := make(chan []string, 1)
	srv := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		next grpc.UnaryHandler) (any, error) {
		shown <- metadata.ValueFromIncomingContext(ctx, "authorization")
		return next(ctx, req)
	}))
	capability, err := weather.New(weather.Config{})
	check.Must(t, err)
	docpb.RegisterCapabilityServer(srv, capability)
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	exit, _, stderr := invokeWith(t, "", "weather", "get_current_weather", `{"location":"Berlin"}`,
		"--addr", "unix:"+filepath.Join(dir, "s"), "--key-file", fmt.Sprintf("/dev/fd/%d", read.Fd()))
	if exit != 0 {
		t.Fatalf("exit %d, stderr %q", exit, stderr)
	}
	if got := check.Received(t, shown, "the call"); !slices.Equal(got, []string{"Bearer " + key}) {
		t.Errorf("shown are %d credentials", len(got))
	}
}

func TestInvokeWithoutArgs(t *testing.T) {
	t.Parallel()
	exit, stdout, stderr := invokeWith(t, "", "weather", "export_report", "--addr", startWeather(t))
	if exit != 0 || !strings.Contains(stdout, "capability_artifact_id") {
		t.Errorf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
}

func TestInvokeStreamPrintsOneLinePerChunk(t *testing.T) {
	t.Parallel()
	exit, stdout, stderr := invokeWith(t, "", "--stream", "weather", "get_forecast", `{"location":"Lima","days":3}`,
		"--addr", startWeather(t))
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if exit != 0 || stderr != "" || len(lines) != 3 {
		t.Fatalf("exit %d, %d lines, stderr %q", exit, len(lines), stderr)
	}
	for i, line := range lines {
		if want := `"date":"2026-03-0` + string(rune('1'+i)) + `"`; !json.Valid([]byte(line)) ||
			!strings.Contains(line, want) {
			t.Errorf("line %d: %s, want %s in it", i, line, want)
		}
	}
}

func TestInvokeToolErrorExitsWith1(t *testing.T) {
	t.Parallel()
	addr := startWeather(t)
	for _, more := range [][]string{nil, {"--stream"}} {
		args := append([]string{"weather", "get_current_weather", `{"location":"Berln"}`, "--addr", addr}, more...)
		exit, stdout, stderr := invokeWith(t, "", args...)
		if exit != 1 || stdout != "" || !strings.Contains(stderr, "did you mean Berlin") {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", more, exit, stdout, stderr)
		}
	}
}

func TestInvokeUsageExitsWith2(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "config.json")
	check.Must(t, os.WriteFile(secret, []byte(`hunter2`), 0o600))
	for _, tc := range []struct {
		want string
		args []string
	}{
		{"CAPABILITY is missing; write capgate invoke CAPABILITY TOOL [ARGS]", nil},
		{"TOOL is missing", []string{"weather"}},
		{`unexpected argument "more"`, []string{"weather", "tool", "{}", "more"}},
		{"CAPABILITY is empty", []string{"", "tool"}},
		{"not a JSON object", []string{"weather", "tool", "Berlin"}},
		{"not a JSON object", []string{"weather", "tool", "[]"}},
		{"not a JSON object", []string{"weather", "tool", "null"}},
		{"not a JSON object", []string{"weather", "tool", "{} {}"}},
		{"not a JSON object", []string{"weather", "tool", "-"}},
		{"unknown flag --no-such-flag; the flags are --addr", []string{"weather", "tool", "--no-such-flag"}},
		{`--timeout "soon": want a duration`, []string{"weather", "tool", "--timeout", "soon"}},
		{"negative", []string{"weather", "tool", "--timeout", "-1s"}},
		{"no such file", []string{"weather", "tool", "--config-json-file", secret + ".not"}},
		{"is not a JSON object", []string{"weather", "tool", "--config-json-file", secret}},
		{"no PEM certificate", []string{"weather", "tool", "--tls-ca", secret}},
	} {
		exit, stdout, stderr := invokeWith(t, "", tc.args...)
		if exit != 2 || stdout != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: exit %d, stdout %q, stderr %q, want %q in it", tc.args, exit, stdout, stderr, tc.want)
		}
		if strings.Contains(stderr, "hunter2") {
			t.Errorf("%q: the config is shown: %s", tc.args, stderr)
		}
	}
}

func TestInvokeHelp(t *testing.T) {
	t.Parallel()
	exit, stdout, stderr := invokeWith(t, "", "-h")
	if exit != 0 || stderr != "" || !strings.Contains(stdout, "CAPABILITY TOOL") ||
		!strings.Contains(stdout, "-config-json-file") ||
		!strings.Contains(stdout, "--wait[=duration]         if the call needs approval") {
		t.Errorf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
}

func TestInvokeTransportExitsWith3(t *testing.T) {
	t.Parallel()
	exit, stdout, stderr := invokeWith(t, "", "weather", "get_forecast", "--addr", check.ClosedPort(t))
	if exit != 3 || stdout != "" || !strings.Contains(stderr, "nothing listens at ") {
		t.Errorf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
}

// scripted is a capability with prepared responses, for what weather does not do.
type scripted struct {
	docpb.UnimplementedCapabilityServer
	invoke func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error)
	chunks []*docpb.InvokeChunk
	status error
}

func (s *scripted) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	return s.invoke(ctx, req)
}

func (s *scripted) StreamInvoke(_ *docpb.InvokeRequest, stream docpb.Capability_StreamInvokeServer) error {
	for _, chunk := range s.chunks {
		if err := stream.Send(chunk); err != nil {
			return err
		}
	}
	return s.status
}

func TestInvokeSendsItsFlags(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.json")
	check.Must(t, os.WriteFile(config, []byte(`{"KEY":"k"}`), 0o600))
	got := make(chan *docpb.InvokeRequest, 1)
	addr := startCapability(t, &scripted{invoke: func(_ context.Context,
		req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
		got <- req
		return &docpb.InvokeResponse{ResultJson: []byte(`12345678901234567890`)}, nil
	}})
	exit, stdout, stderr := invokeWith(t, "", "cap", "tool", `{"a":1}`, "--session", "s1", "--config-json-file",
		config, "--addr", addr)
	if exit != 0 || stdout != "12345678901234567890\n" {
		t.Fatalf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
	req := check.Received(t, got, "the result")
	if req.GetCapabilityId() != "cap" || req.GetToolName() != "tool" || req.GetSessionId() != "s1" ||
		string(req.GetArgsJson()) != `{"a":1}` || string(req.GetConfigJson()) != `{"KEY":"k"}` {
		t.Errorf("sent %v", req)
	}
}

func TestInvokeUnusableAnswers(t *testing.T) {
	t.Parallel()
	refusal, err := status.New(codes.NotFound, "no such capability").
		WithDetails(&errdetails.ErrorInfo{Reason: "UNKNOWN_CAPABILITY", Domain: "capgate.dev"})
	check.Must(t, err)
	for name, tc := range map[string]struct {
		invoke func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error)
		want   string
		exit   int
		more   []string
	}{
		"refused": {func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
			return nil, refusal.Err()
		},
			"capgate invoke: no such capability (UNKNOWN_CAPABILITY)", exitRefused, nil},
		"not JSON": {func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
			return &docpb.InvokeResponse{ResultJson: []byte("sunny")}, nil
		}, "not JSON", exitRefused, nil},
		"too late": {func(ctx context.Context, _ *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		}, "did not answer in time", exitUnreachable, []string{"--timeout", "50ms"}},
	} {
		addr := startCapability(t, &scripted{invoke: tc.invoke})
		exit, stdout, stderr := invokeWith(t, "", append([]string{"cap", "tool", "--addr", addr}, tc.more...)...)
		if exit != tc.exit || stdout != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %q in it", name, exit, stdout, stderr, tc.want)
		}
	}
}

func TestInvokeStreamEndings(t *testing.T) {
	t.Parallel()
	data := func(s string) *docpb.InvokeChunk { return &docpb.InvokeChunk{Data: []byte(s)} }
	done := &docpb.InvokeChunk{Done: true}
	for name, tc := range map[string]struct {
		server         *scripted
		exit           int
		stdout, stderr string
	}{
		"any data": {&scripted{chunks: []*docpb.InvokeChunk{data("{ \"a\":\n1 }"), data("<b>"), data("\xff"), done}},
			0, "{\"a\":1}\n\"<b>\"\n{\"data_base64\":\"/w==\"}\n", ""},
		"cut off": {&scripted{chunks: []*docpb.InvokeChunk{data("1")}}, 3, "1\n", "incomplete"},
		"fails late": {&scripted{chunks: []*docpb.InvokeChunk{data("1"), {Error: "broke", Done: true}}}, 1, "1\n",
			"tool: broke"},
		"lost": {&scripted{chunks: []*docpb.InvokeChunk{data("1")},
			status: status.Error(codes.Unavailable, "gone")}, 3, "1\n", "gone"},
		"bad trailer": {&scripted{chunks: []*docpb.InvokeChunk{done}, status: status.Error(codes.Internal, "oops")},
			1, "", "oops (INTERNAL)"},
	} {
		exit, stdout, stderr := invokeWith(t, "", "cap", "tool", "--stream", "--addr", startCapability(t, tc.server))
		if exit != tc.exit || stdout != tc.stdout || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, exit, stdout, stderr)
		}
	}
}

func TestInvokeTLS(t *testing.T) {
	t.Parallel()
	cert, caFile := selfSigned(t)
	capability, err := weather.New(weather.Config{})
	check.Must(t, err)
	addr := startCapability(t, capability, grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	args := []string{"weather", "get_current_weather", `{"location":"Oslo"}`, "--addr", addr}
	if exit, _, stderr := invokeWith(t, "", append(slices.Clone(args), "--tls-ca", caFile)...); exit != 0 {
		t.Errorf("trusted: exit %d, stderr %q", exit, stderr)
	}
	if exit, _, stderr := invokeWith(t, "", append(slices.Clone(args), "--tls")...); exit != 3 ||
		!strings.Contains(stderr, "certificate") {
		t.Errorf("not trusted: exit %d, stderr %q", exit, stderr)
	}
}

// selfSigned creates a certificate for 127.0.0.1, and a file that trusts it.
func selfSigned(t *testing.T) (cert tls.Certificate, caFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.Must(t, err)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	check.Must(t, os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, caFile
}

// The command accepts responses from backends of any dialect.
func TestInvokeALegacyBackend(t *testing.T) {
	t.Parallel()
	for _, configured := range []string{"auto", "legacy"} {
		backend := gatewaytest.NewCapability("b1").Serve(t, call.Legacy)
		file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nfleets:\n  - {capability: caps, policy: "+
			"allow, dialect: "+configured+", backends: ['"+backend.Addr+"']}\n")
		_, public, admin := serve(t, nil, "--config", file)
		waitPage(t, "http://"+admin+"/readyz", `"ready":true`)
		for _, test := range []struct {
			args           []string
			exit           int
			stdout, stderr string
		}{
			{[]string{"caps", "echo", `{"a": 1}`}, 0, "{\n  \"a\": 1\n}\n", ""},
			{[]string{"--stream", "caps", "echo", `{"a": 1}`}, 0, `{"a":1}` + "\n", ""},
			{[]string{"caps", "fail"}, exitRefused, "", "fail: the tool failed for {}\n"},
			{[]string{"--stream", "caps", "mute"}, exitRefused, "", "mute: the tool failed without an error " +
				"message\n"},
		} {
			exit, stdout, stderr := invokeWith(t, "", append([]string{"--addr", public}, test.args...)...)
			if exit != test.exit || stdout != test.stdout || stderr != test.stderr {
				t.Errorf("%s, %v: %d %q %q", configured, test.args, exit, stdout, stderr)
			}
		}
	}
}
