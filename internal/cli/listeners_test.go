package cli

import (
	"crypto/tls"
	"encoding/json"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// addressesOf returns the addresses of listeners in the log of a gateway.
func addressesOf(t *testing.T, p *program) (all []string) {
	t.Helper()
	for line := range strings.Lines(p.stderr.wait(t, p, `"msg":"serving"`)) {
		var serving struct {
			Msg       string
			Listeners []string
		}
		if json.Unmarshal([]byte(line), &serving) == nil && serving.Msg == "serving" {
			all = serving.Listeners
		}
	}
	return all
}

// bareCall makes a call of the live dialect without metadata, and returns its error.
func bareCall(t *testing.T, target string, options ...grpc.DialOption) error {
	t.Helper()
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	conn, err := clienttest.NewConn(target, options...)
	check.Must(t, err)
	defer conn.Close()
	_, err = livepb.NewCapabilityClient(conn).Invoke(t.Context(),
		&livepb.InvokeRequest{ToolName: gatewaytest.Echo, ArgsJson: []byte(`{}`)})
	return err
}

const acme = "tenants: [{id: acme, capabilities: [caps]}]\n"

// TestListenersOfTheFile: a port and a unix socket serve callers that name nothing, with every usual client.
// The socket is removed at the end, and that of a killed process is replaced.
func TestListenersOfTheFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Live).Addr
	path := filepath.Join(t.TempDir(), "caps.sock")
	file := writeConfig(t, configOf(acme+
		"listeners: [{address: '127.0.0.1:0', tenant: acme, capability: caps}, {address: "+"'unix:"+path+
		"', tenant: acme, capability: caps, mode: 0660}]", backend))
	killed, _, _ := serve(t, nil, "--config", file)
	killed.signal(t, syscall.SIGKILL)
	killed.wait(t)
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the socket of a killed process: %v", err)
	}

	p, public, _ := serve(t, nil, "--config", file)
	all := addressesOf(t, p)
	if len(all) != 2 || !strings.HasPrefix(all[0], "127.0.0.1:") || all[1] != "unix:"+path {
		t.Fatalf("got %q", all)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	for _, target := range []string{"passthrough:///" + all[0], all[1]} {
		if err := bareCall(t, target); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	if err := bareCall(t, "passthrough:///"+public); status.Code(err).String() != "Unauthenticated" {
		t.Errorf("the public port: %v", err)
	}
	for _, version := range []string{"--http1.1", "--http2-prior-knowledge"} {
		out, err := exec.CommandContext(t.Context(), "curl", "-q", "-sS", version, "--unix-socket", path,
			"-d", `{"tool_name":"echo","args":{}}`, "-H", "Content-Type: application/json",
			"http://localhost/v1/capabilities/caps/invoke").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "result") {
			t.Errorf("curl %s: %s, %v", version, out, err)
		}
	}
	script := "import grpc, sys\n" + // the authorities that versions of clients send by themselves
		"for name in [None] + sys.argv[2:]:\n" +
		"  options = name and [('grpc.default_authority', name)]\n" +
		"  f = grpc.insecure_channel(sys.argv[1], " +
		"options).unary_unary('/selu.capability.v1.Capability/Healthcheck')\n  print(f(b'', timeout=60)[:2])\n"
	out, err := exec.CommandContext(t.Context(), python(t), "-c", script, "unix:"+path, path, "unix:"+path,
		url.PathEscape(path)).CombinedOutput()
	if err != nil || strings.Count(string(out), `b'\x08\x01'`) != 4 { // ready: true
		t.Errorf("Python: %s, %v", out, err)
	}
	p.stop(t)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSocketsInUse: neither a socket on which a program listens nor another file is replaced. Errors say what
// to do.
func TestSocketsInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer taken.Close()
	other, err := net.Listen("unix", filepath.Join(dir, "used"))
	check.Must(t, err)
	defer other.Close()
	check.Must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	check.Must(t, os.Symlink(filepath.Join(dir, "used"), filepath.Join(dir, "link")))
	for name, want := range map[string]string{
		"used": "is in use by another program", "file": "is not a socket, and is not removed",
		"link": "is not a socket", "none/x": "its directory does not exist; create it first",
		taken.Addr().String(): "is in use by another program; name another address",
		"192.0.2.1:1":         "is not an address of this machine; name one that it has",
	} {
		addr := "unix:" + filepath.Join(dir, name)
		if strings.Contains(name, ":") {
			addr = name
		}
		file := writeConfig(t, configOf("listeners: [{address: '"+addr+"', open: true}]", "127.0.0.1:1"))
		exit, _, stderr := runProgram(t, nil, "serve", "--config", file)
		if exit != 1 || !strings.Contains(stderr, "listeners[0]: address: ") || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", name, exit, stderr)
		}
	}
	conn, err := net.Dial("unix", filepath.Join(dir, "used"))
	if err != nil {
		t.Fatalf("the other program's socket: %v", err)
	}
	_ = conn.Close()
	if text, err := os.ReadFile(filepath.Join(dir, "file")); string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestListenersReload: a listener presents a renewed certificate; other changes of listeners need a restart.
func TestListenersReload(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Live).Addr
	before, after := certtest.New(t), certtest.New(t)
	files := configMap{dir: t.TempDir()}
	put := func(authority *certtest.Authority, more string) {
		cert, key := certtest.PEMOf(t, authority.Server(t))
		files.put(t, map[string]string{"cert": cert, "key": key, "capgate.yaml": configOf(acme+
			"listeners: [{address: '127.0.0.1:0', tenant: acme, capability: caps"+more+", tls: {cert_file: "+
			files.file("cert")+", key_file: "+files.file("key")+"}}]", backend)})
	}
	put(before, "")
	p, _, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	target := "passthrough:///" + addressesOf(t, p)[0]
	dialed := func(authority *certtest.Authority) error {
		return bareCall(t, target, grpc.WithTransportCredentials(
			credentials.NewTLS(&tls.Config{RootCAs: authority.Pool})))
	}
	check.Must(t, dialed(before))
	put(after, ", user: ann")
	p.signal(t, syscall.SIGHUP)
	waitPage(t, "http://"+admin+"/readyz", `"needs_restart":["listeners"]`)
	if err := dialed(after); err != nil {
		t.Errorf("the renewed certificate: %v", err)
	}
	if err := dialed(before); err == nil {
		t.Error("the former certificate is shown still")
	}
	if strings.Contains(p.stderr.String(), `"user":"ann"`) {
		t.Error("a change applied without a restart")
	}
	p.stop(t)
}

// TestListenersDrain: at the end, calls at a listener finish.
func TestListenersDrain(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("one")
	path := filepath.Join(t.TempDir(), "s")
	p, _, _ := serve(t, nil, "--config", writeConfig(t, configOf("listeners: [{address: 'unix:"+path+
		"', capability: caps}]", capability.Serve(t, call.Live).Addr)))
	conn, err := clienttest.NewConn("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	defer conn.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := livepb.NewCapabilityClient(conn).Invoke(t.Context(),
			&livepb.InvokeRequest{ToolName: gatewaytest.Block, ArgsJson: []byte(`{}`)})
		ended <- err
	}()
	check.Received(t, capability.Blocked(), "the call")
	p.signal(t, syscall.SIGTERM)
	p.stderr.wait(t, p, `"msg":"draining"`)
	capability.Release()
	if err := check.Received(t, ended, "the end of the call"); err != nil {
		t.Error(err)
	}
	if exit := p.wait(t); exit != 0 {
		t.Errorf("exit status %d", exit)
	}
}

// TestCheckListeners: capgate check names the identity of callers at an open listener.
func TestCheckListeners(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, configOf("redis: redis://h\nidentity: {store: redis}\n"+acme+
		"listeners: [{address: '10.0.0.1:50051', tenant: acme, user: ann, open: true}, {address: '127.0.0.1:50051', "+
		"tenant: globex}, {address: ':50052'}]", "b:1"))
	exit, stdout, stderr := runProgram(t, nil, "check", file)
	want := file + ": warning: listeners[0]: 10.0.0.1:50051 is open: every program that reaches it is the tenant " +
		"acme, on behalf of the user ann\n" + file +
		": warning: listeners[1]: tenant globex is not in the file: calls are rejected unless Redis has it\n"
	if exit != 0 || !strings.HasPrefix(stdout, "ok: ") || stderr != want {
		t.Errorf("%d %s%s, want %s", exit, stdout, stderr, want)
	}
}
