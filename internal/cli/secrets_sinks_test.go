package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// stop ends the gateways, which flushes all spans, and searches their output.
func (g *secretive) stop(t *testing.T) {
	t.Helper()
	g.program.stop(t)
	g.second.stop(t)
	g.scan("log", g.program.stdout.String()+g.program.stderr.String())
	g.scan("log", g.second.stderr.String())
	g.scan("audit log on standard output", g.second.stdout.String())
	text, err := os.ReadFile(g.audit)
	check.Must(t, err)
	g.scan("audit log", string(text))
}

// look reads everything that operators can read.
func (g *secretive) look(t *testing.T) {
	t.Helper()
	for _, path := range []string{"", "livez", "readyz?verbose", "metrics", "v1/fleets", "v1/policies",
		"v1/policies?tenant=acme", "v1/approvals", "v1/approvals?tenant=acme", "v1/capabilities",
		"v1/capabilities/caps", "v1/webhook", "v1/webhooks/dead", "v1/limits", "v1/nothing"} {
		_, text := page(t, "http://"+g.admin+"/"+path)
		g.scan("operators' pages", text)
	}
	for _, profile := range []string{"goroutine?debug=1", "goroutine?debug=2", "goroutine", "heap?debug=1", "heap",
		"allocs", "block", "mutex", "threadcreate?debug=1", "cmdline", "symbol", "trace?seconds=0.1",
		"profile?seconds=1", "", "threadcreate", "goroutine?debug=3", "heap?gc=1&debug=1", "goroutineleak?debug=2"} {
		_, text := page(t, "http://"+g.admin+"/debug/pprof/"+profile)
		g.scan("profiles", text)
	}
	g.runCommands(t)
	g.checkBadFiles(t)
	g.checkFilesOfSecrets(t)
	g.askOperators(t)
}

// runCommands runs every command that requests something from a gateway. Each is a sink of its own.
func (g *secretive) runCommands(t *testing.T) {
	t.Helper()
	// they are tested elsewhere, or use no gateway
	ran := map[string]bool{"help": true, "init": true, "serve": true, "demo": true, "version": true, "register": true,
		"tenants": true, "keys": true, "forward": true}
	env := []string{"CAPGATE_KEY=" + g.key, "XDG_CONFIG_HOME=" + t.TempDir()}
	keyFile := filepath.Join(t.TempDir(), "key")
	check.Must(t, os.WriteFile(keyFile, []byte(g.key), 0o600))
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	for _, line := range [][]string{
		{"check", "--config", g.file},
		{"audit", "verify", g.audit}, {"audit", "--admin", g.admin, "list"}, {"sessions", "--admin", g.admin, "list"},
		{"calls", "--admin", g.admin}, {"calls", "--admin", g.admin, "--since", "1h", "-o", "json"},
		{"webhooks", "--admin", g.admin, "list"},
		{"status", "--admin", g.admin}, {"status", "--admin", g.admin, "-o", "json"},
		{"status", "--admin", g.admin, "--tenants"},
		{"approvals", "--admin", g.admin, "--tenant", "acme", "list"},
		{"approvals", "--admin", g.admin, "--tenant", "acme", "list", "-o", "json"},
		{"policy", "--admin", g.admin, "--tenant", "acme", "list"},
		{"policy", "--admin", g.admin, "--tenant", "acme", "explain", "people", "echo"},
		{"catalog", "--admin", g.admin, "list"}, {"catalog", "--admin", g.admin, "show", "caps"},
		{"toolsets", "--admin", g.admin, "list"},
		{"fleets", "--admin", g.admin, "show", "weather"},
		{"drain", "--admin", g.admin, "127.0.0.1:1", "--timeout", "1s"}, {"undrain", "--admin", g.admin, "127.0.0.1:1"},
		{"invoke", "--addr", g.public, "caps", gatewaytest.Echo},
		{"invoke", "--addr", g.admin, "caps", gatewaytest.Fail},
		{"engines", "--addr", g.public, "list"}, {"engines", "--addr", g.public, "send", "caps", "hello"},
		{"login", "--admin", g.admin, "--key-file", keyFile}, {"logout", "--admin", g.admin},
		{"verify", "--addr", g.public, "--admin", g.admin, "--capability", "caps", "--tool", gatewaytest.Echo,
			"--admin-key-file", keyFile},
		{"support-bundle", "--admin", g.admin, "--config", g.file, "--to", bundle},
		{"healthcheck", "--addr", g.public}, {"probe", g.public}, {"conform", g.public}, {"config", "schema"},
		{"link", "claude-code", "--key"},
	} {
		ran[line[0]] = true
		_, stdout, stderr := runProgram(t, env, line...)
		g.scan("capgate "+line[0], stdout+stderr)
	}
	parts := bundleOf(t, bundle)
	for name, text := range parts {
		g.scan("support bundle", name+" "+text)
	}
	if len(parts) < 10 {
		t.Errorf("the support bundle has only %d parts", len(parts))
	}
	for _, name := range names(commandTree(stdio{})) {
		if !ran[name] {
			t.Errorf("say here how to run capgate %s", name)
		}
	}
}

// checkBadFiles runs capgate check on secrets in wrong places.
func (g *secretive) checkBadFiles(t *testing.T) {
	t.Helper()
	for door, text := range map[string]string{
		"shield's user": "shields: [{name: a, url: 'http://u:SECRET@h/'}]",
		"webhook's user": "approvals: {notices: [{name: webhook, url: 'http://u:SECRET@h/', secret_file: " +
			"/dev/null}]}", "a wrong Redis": "redis: 'redis://u:SECRET@h:port/'",
		"options of Redis": "redis: 'redis://h/0?password=SECRET'",
		"Redis as a list":  "redis: ['redis://u:SECRET@h/']",
		"a wrong shield":   "shields: [{name: a, url: 'ht!tp://h/?SECRET'}]",
		"a backend's URL":  "fleets: [{capability: a, backends: ['http://u:SECRET@h:1/']}]",
		"a key's id":       "tenants: [{id: a, capabilities: [], keys: [{id: cg_aaaaaaaaaaaaaaaa_SECRET}]}]",
		"a key's hash":     "tenants: [{id: a, capabilities: [], keys: [{id: aaaaaaaaaaaaaaaa, hash: SECRET}]}]",
	} {
		file := writeConfig(t, strings.ReplaceAll(text, "SECRET", g.plant(door)))
		exit, stdout, stderr := runProgram(t, nil, "check", "--config", file)
		if exit == 0 {
			t.Errorf("%s is accepted: %s", door, stdout)
		}
		g.scan("capgate check", stdout+stderr)
	}
}

// checkFilesOfSecrets runs capgate check on files that hold secrets in a wrong form.
func (g *secretive) checkFilesOfSecrets(t *testing.T) {
	t.Helper()
	silent := func(door string, args ...string) {
		t.Helper()
		var said bytes.Buffer
		if run(t.Context(), append([]string{"check"}, args...),
			stdio{in: strings.NewReader(""), out: &said, err: &said}) == 0 {
			t.Errorf("%s is accepted: %s", door, said.String())
		}
		g.scan("capgate check", said.String())
	}
	file := func(door, text string) string {
		name := filepath.Join(t.TempDir(), "file.yaml")
		check.Must(t, os.WriteFile(name, []byte(strings.ReplaceAll(text, "SECRET", g.plant(door))), 0o600))
		return name
	}
	for door, test := range map[string]struct{ config, file string }{
		"file of traces": {"traces: {endpoint: 'h:1', headers_file: FILE}", "Authorization=SECRET\n"},
		"file of a hash": {"tenants: [{id: a, capabilities: [], keys: [{id: aaaaaaaaaaaaaaaa, hash_file: " +
			"FILE}]}]", "sha256:SECRET"},
		"secret file": {"secret_file: FILE", "SECRET"},
		"file of the webhook": {"policies: {}\napprovals: {notices: [{name: webhook, url: 'http://h/', secret_file: " +
			"FILE}]}", "whsec_!SECRET"},
		"file of a key": {"tls: {cert_file: FILE, key_file: FILE}",
			"-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n"},
		"file of authorities": {"tls: {cert_file: /nowhere, key_file: /nowhere, client_ca_file: FILE}", "SECRET"},
		"file of an issuer": {"tenants: [{id: a, capabilities: []}]\nissuers: [{name: a, issuer: 'https://h', " +
			"audiences: [a], ca_file: FILE}]", "SECRET"},
		"file that is no YAML": {"manifests: [FILE]", "id: [SECRET\n  x: {"},
		"manifest of a fleet":  {"manifests: [FILE]", "id: a\ncredentials: {API_KEY: SECRET}\n"},
		"issuer's user": {"issuers: [{name: a, issuer: 'https://u:SECRET@h', audiences: [a], jwks_url: " +
			"'https://u:SECRET@h/'}]", ""},
		"collector's user": {"traces: {endpoint: 'http://u:SECRET@h/'}", ""},
	} {
		name := ""
		if test.file != "" {
			name = file(door, test.file)
		}
		silent(door, "--config", writeConfig(t,
			strings.NewReplacer("FILE", name, "SECRET",
				g.secretOf(door)).Replace("fleets: [{capability: a, backends: []}]\n"+test.config)))
	}
	for door, text := range map[string]string{
		"value of a credential":   "id: a\ncredentials: [{name: API_KEY, value: SECRET}]",
		"credential as a mapping": "id: a\ncredentials: {API_KEY: SECRET}",
		"credential as a word":    "id: a\ncredentials: ['API_KEY=SECRET']",
		"credential's name":       "id: a\ncredentials: [{name: 'API_KEY=SECRET'}]",
		"environment":             "id: a\nenvironment: {API_KEY: SECRET}",
		"user of a host":          "id: a\nnetwork: {mode: allowlist, hosts: ['u:SECRET@h:443']}",
	} {
		silent(door, file("manifest, "+door, text))
	}
}

// secretOf returns the secret of a door, which may not exist yet.
func (g *secretive) secretOf(door string) string {
	if g.planted[door] == "" {
		return g.plant(door)
	}
	return g.planted[door]
}

// askOperators calls every method that reflection lists at the admin API.
func (g *secretive) askOperators(t *testing.T) {
	t.Helper()
	conn, err := dialAdmin(g.admin)
	check.Must(t, err)
	defer conn.Close()
	listed, err := askReflection(t.Context(), conn,
		&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	check.Must(t, err)
	for _, l := range listed.GetListServicesResponse().GetService() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(l.GetName()))
		check.Must(t, err)
		for i := range d.(protoreflect.ServiceDescriptor).Methods().Len() {
			if m := d.(protoreflect.ServiceDescriptor).Methods().Get(i); !m.IsStreamingClient() {
				g.askOperator(t, conn, m)
			}
		}
	}
}

func (g *secretive) askOperator(t *testing.T, conn *grpc.ClientConn, m protoreflect.MethodDescriptor) {
	t.Helper()
	ctx, cancel := context.WithCancel(check.Context(t))
	defer cancel()
	req := dynamicpb.NewMessage(m.Input())
	for name, value := range map[protoreflect.Name]string{"tenant": "acme", "capability": "people", "tool": "echo",
		"last_event_id": "0"} {
		if f := m.Input().Fields().ByName(name); f != nil && f.Kind() == protoreflect.StringKind {
			req.Set(f, protoreflect.ValueOfString(value))
		}
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()))
	check.Must(t, err)
	if stream.SendMsg(req) == nil {
		_ = stream.CloseSend()
	}
	if m.IsStreamingServer() {
		defer time.AfterFunc(time.Second, cancel).Stop() // a watch has no end of its own
	}
	for {
		resp := dynamicpb.NewMessage(m.Output())
		if err := stream.RecvMsg(resp); err != nil {
			g.scan("operators' gRPC", compact(status.Convert(err).Proto()))
			if code := status.Code(err); code == codes.Unimplemented {
				t.Errorf("%s: %v", m.FullName(), err)
			}
			return
		}
		g.scan("operators' gRPC", compact(resp))
	}
}
