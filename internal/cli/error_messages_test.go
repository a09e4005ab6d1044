package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// mistake is a user's mistake, with the expected error: what is wrong, where, and the next step.
type mistake struct {
	name string
	line string   // a command line of a shell: capgate, curl or grpcurl; $NAME stands for an address or a file
	exit int      // exit status of capgate; -1 for another program
	says []string // parts
}

// mistakes are in the order in which people learn: the command line, files, addresses, calls, rules, tenants.
var mistakes = []mistake{
	{"a command", "capgate polcy list", exitUsage, []string{`unknown command "polcy"; did you mean "policy"`}},
	{"a verb", "capgate policy lst", exitUsage, []string{`unknown command "lst"; did you mean "list"`,
		"capgate policy -h"}},
	{"a flag", "capgate status --adimn h:1", exitUsage, []string{"unknown flag --adimn; did you mean --admin?"}},
	{"one dash", "capgate status -admin h:1", exitUsage, []string{"flags have two dashes: --admin"}},
	{"a missing argument", "capgate keys revoke acme", exitUsage,
		[]string{"ID is missing; write capgate keys revoke TENANT ID"}},
	{"a format", "capgate status -o xml", exitUsage, []string{"want table, json or yaml"}},
	{"JSON arguments", "capgate invoke caps echo '{a: 1}'", exitUsage,
		[]string{"ARGS is not a JSON object: at byte 2", `'{"location":"Berlin"}'`}},

	{"no configuration", "capgate serve", exitUsage, []string{"no configuration capgate.yaml",
		"capgate init writes one"}},
	{"a file's name", "capgate check $DIR/god.yaml", exitRefused,
		[]string{"god.yaml: cannot be read: no such file", `did you mean "$DIR/good.yaml"?`}},
	{"YAML", "capgate check $DIR/syntax.yaml", exitRefused, []string{"syntax.yaml:1: not YAML: "}},
	{"a field", "capgate check $DIR/field.yaml", exitRefused,
		[]string{`field.yaml:1: fleets[0].backend: unknown field; did you mean "backends"?`}},
	{"a field given twice", "capgate check $DIR/twice.yaml", exitRefused,
		[]string{"twice.yaml:2: listen: given twice; the first is in line 1"}},
	{"a misspelt rule", "capgate check $DIR/rule.yaml", exitRefused,
		[]string{`fleets[0].policy: "alow" is not possible; it must be allow, ask or block; did you mean "allow"?`}},
	{"no policy", "capgate check $DIR/silent.yaml", 0,
		[]string{"warning: fleet a: all tools are blocked", "set policy: allow or ask"}},
	{"a manifest in place of a configuration", "capgate serve examples/weather/manifest.yaml", exitUsage,
		[]string{"is the manifest of a capability", "capgate init"}},
	{"a port in use", "capgate serve $DIR/good.yaml --listen $OPEN", exitRefused,
		[]string{"$OPEN is in use by another program; choose another address with --listen HOST:PORT"}},
	{"an address of Redis", "capgate serve $DIR/good.yaml --redis http://$NOBODY", exitUsage, []string{"redis: "}},
	{"no capability to forward", "capgate forward", exitUsage,
		[]string{"--capability, SELU_CAPABILITY_ID: no capability is named; want its id"}},
	{"no gateway to forward to", "capgate forward --capability caps", exitUsage,
		[]string{"--url, CAPGATE_URL: the gateway's address is missing; want https://HOST:PORT"}},
	{"an address to forward to", "capgate forward --capability caps --url $OPEN", exitUsage,
		[]string{"--url, CAPGATE_URL", "want http://HOST:PORT or https://HOST:PORT"}},
	{"a key file to forward with", "capgate forward --capability caps --url http://$OPEN --key-file $DIR/none",
		exitUsage, []string{"--key-file, CAPGATE_KEY_FILE", "$DIR/none cannot be read: no such file"}},
	{"a proxy to forward by", "capgate forward --capability caps --url http://$OPEN --proxy yes", exitUsage,
		[]string{`--proxy, CAPGATE_PROXY: "yes": want none or environment`}},
	{"a port in use for forward", "capgate forward --capability caps --url http://$OPEN --listen $OPEN", exitRefused,
		[]string{"$OPEN is in use by another program; set another address by --listen"}},

	{"nothing listens", "capgate invoke --addr $NOBODY caps echo", exitUnreachable,
		[]string{"nothing listens at $NOBODY", "--addr sets its address"}},
	{"a scheme", "capgate invoke --addr grpc://$OPEN caps echo", exitUsage,
		[]string{"want host:port, http://host:port or https://host:port"}},
	{"the admin API in place of the public port", "capgate invoke --addr $ADMIN caps echo", exitRefused,
		[]string{"$ADMIN is the admin API of a gateway", "(--addr)"}},
	{"the public port in place of the admin API", "capgate status --admin $OPEN", exitRefused,
		[]string{"$OPEN is the public port of a gateway", "CAPGATE_ADMIN"}},
	{"a page of the admin API", "curl -s $OPEN/metrics", -1,
		[]string{"a path of the admin API, which listens at another port"}},
	{"MCP with a slash", "curl -s $OPEN/mcp/", -1, []string{"MCP is served at /mcp, without a trailing slash"}},
	{"MCP's older transport", "curl -s $OPEN/sse", -1, []string{"MCP is served at /mcp",
		"HTTP with SSE, is not served"}},
	{"TLS to cleartext", "capgate invoke --addr $OPEN --tls caps echo", exitUnreachable,
		[]string{"$OPEN does not speak TLS: leave out --tls"}},
	{"cleartext to TLS", "capgate invoke --addr $SECURE caps echo", exitUnreachable,
		[]string{"$SECURE speaks TLS: use --tls"}},
	{"HTTP to TLS", "curl -s $SECURE/v1/capabilities", -1, []string{"TLS_REQUIRED", "this port speaks TLS"}},

	{"a capability", "capgate invoke --addr $OPEN cap echo", exitRefused,
		[]string{`no capability "cap" is configured; did you mean "caps"?`, "GET /v1/capabilities lists"}},
	{"a capability by curl", "curl -s $OPEN/v1/capabilities/cap/tools/echo -d {}", -1,
		[]string{`did you mean \"caps\"?`, "/docs/errors#CAPABILITY_UNKNOWN"}},
	{"a tool", "capgate invoke --addr $OPEN strict ecoh", exitRefused,
		[]string{`the capability has no tool "ecoh"; did you mean "echo"?; you may call echo`}},
	{"an argument", `capgate invoke --addr $OPEN strict echo '{"b":"x"}'`, exitRefused,
		[]string{`at "/b": got string, want integer`, "ARGUMENTS_INVALID"}},
	{"a field of a body", `curl -s $OPEN/v1/capabilities/caps/invoke -d '{"tol_name":"echo"}'`, -1,
		[]string{`unknown field \"tol_name\"; did you mean \"tool_name\"?`}},
	{"JSON of a body", `curl -s $OPEN/v1/capabilities/caps/tools/echo -d '{"a":'`, -1,
		[]string{"the body is not JSON from byte 5 on"}},
	{"a content type", "curl -s $OPEN/v1/capabilities/caps/tools/echo -H 'Content-Type: text/plain' -d {}", -1,
		[]string{"send it with Content-Type: application/json"}},
	{"a body too large", "curl -s $OPEN/v1/capabilities/caps/tools/echo -d @$DIR/large", -1,
		[]string{"the body is larger than 16777216 bytes; upload large inputs as files"}},
	{"a path", "curl -s $OPEN/v1/capability/caps", -1,
		[]string{"nothing at this path; GET /openapi.json lists the paths"}},
	{"an HTTP method", "curl -s -X PUT $OPEN/v1/capabilities/caps/tools/echo -d {}", -1,
		[]string{"does not support the method PUT; it supports POST"}},
	{"no routing key", "grpcurl -plaintext -d {} $OPEN selu.capability.Capability/Invoke", -1,
		[]string{"x-capability-id"}},
	{"a blocked tool", "capgate invoke --addr $OPEN silent echo", exitRefused,
		[]string{"no rule, manifest or policy of the fleet allows this tool", "capgate policy set", "TOOL_BLOCKED"}},
	{"an approval that is gone", "capgate invoke --addr $OPEN asking echo --approval apr_AAAAAAAAAAAAAAAAAAAAAAAAAA",
		exitRefused, []string{"the approval does not exist"}},

	{"a verdict", "capgate policy set caps echo alow --admin $ADMIN", exitUsage,
		[]string{`"alow": want allow, ask or block; did you mean "allow"?`}},
	{"a rule's capability", "capgate policy set cap echo allow --admin $ADMIN", exitRefused,
		[]string{`did you mean "caps"?`, "--force"}},
	{"a state", "capgate approvals list --state pendin --admin $ADMIN", exitRefused,
		[]string{"state: it must be pending, approved, denied, expired or used"}},
	{"a fleet", "capgate status cap --admin $ADMIN", exitRefused, []string{`did you mean "caps"?`, "the fleets are "}},

	{"no key", "capgate invoke --addr $KEYED caps echo", exitRefused,
		[]string{"needs an API key or a token", "--key-file"}},
	{"a key", "curl -s -H 'Authorization: Bearer nonsense' $KEYED/v1/capabilities", -1,
		[]string{"neither an API key nor a token that is accepted here"}},
	{"no scope", "capgate invoke --addr $KEYED --key-file $DIR/reader caps echo", exitRefused,
		[]string{"it lacks the scope invoke", "SCOPE_MISSING"}},
	{"a tenant", "capgate keys list acm --admin $KEYEDADMIN", exitRefused,
		[]string{`there is no tenant "acm"; did you mean "acme"?`}},
	{"tenants are in the file", "capgate tenants create globex --capabilities '*' --admin $KEYEDADMIN", exitRefused,
		[]string{"set identity.store: redis in its configuration"}},
	{"a URL of the admin API", "capgate status --admin ftp://$ADMIN", exitUsage,
		[]string{"--admin: want host:port, http://host:port or https://host:port"}},
}

// TestMistakes: the error of each mistake says what is wrong, where, and the next step. It has no words of the
// Go runtime or of gRPC.
func TestMistakes(t *testing.T) {
	t.Parallel()
	place := startMistakenGateways(t)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			out, exit := shell(t, place.Replace(m.line))
			if m.exit >= 0 && exit != m.exit {
				t.Errorf("%s\nexit status %d, want %d: %s", m.line, exit, m.exit, out)
			}
			for _, part := range m.says {
				if part = place.Replace(part); !strings.Contains(out, part) {
					t.Errorf("%s\nsays %s\nwithout %q", m.line, out, part)
				}
			}
			for _, raw := range []string{"rpc error", "desc =", "dial tcp", "connect:", "transport:", "panic"} {
				if strings.Contains(out, raw) && !strings.HasPrefix(m.line, "grpcurl") {
					t.Errorf("%s\nsays %q: %s", m.line, raw, out)
				}
			}
		})
	}
}

// startMistakenGateways starts three gateways: one without keys, one with TLS, and one with tenants. The replacer has
// their addresses and a directory of files.
func startMistakenGateways(t *testing.T) *strings.Replacer {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		check.Must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	put("good.yaml", configOf("", backend))
	put("syntax.yaml", "fleets: [{capability: a\n")
	put("field.yaml", "fleets: [{capability: a, policy: allow, backend: ['b:1']}]\n")
	put("twice.yaml", "listen: ':1'\nlisten: ':2'\nfleets: [{capability: a, policy: allow, backends: ['b:1']}]\n")
	put("rule.yaml", "fleets: [{capability: a, policy: alow, backends: ['b:1']}]\n")
	put("silent.yaml", "fleets: [{capability: a, backends: ['b:1']}]\n")
	put("large", strings.Repeat(" ", 16<<20+1))
	strict := put("manifest.yaml", "id: strict\nimage: i\ntools:\n- {name: echo, description: d, input_schema: "+
		"{type: "+
		"object, properties: {b: {type: integer}}}, recommended_policy: allow}\n")
	more := fmt.Sprintf(`policies: {}
fleets:
- {capability: caps, policy: allow, backends: [%q]}
- {capability: strict, policy: allow, validate_arguments: true, manifest: %q, backends: [%[1]q]}
- {capability: silent, backends: [%[1]q]}
- {capability: asking, policy: ask, backends: [%[1]q]}
`, backend, strict)
	const ports = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n"
	_, open, admin := serve(t, nil, put("open.yaml", ports+more))

	cert, key := certtest.PEMOf(t, certtest.New(t).Server(t))
	_, secure, _ := serve(t, nil, put("secure.yaml", fmt.Sprintf("%stls: {cert_file: %q, key_file: %q}\n%s", ports,
		put("crt", string(cert)), put("key", string(key)), more)))

	exit, reader, entry := inProcess(t, "keys", "new", "--scopes", "read")
	if exit != 0 {
		t.Fatal(entry)
	}
	put("reader", reader)
	_, entry, _ = strings.Cut(entry, "\n- ")
	_, keyed, keyedAdmin := serve(t, nil, put("keyed.yaml", ports+"tenants: [{id: acme, capabilities: ['*'], keys: ["+
		strings.TrimSpace(entry)+"]}]\n"+strings.TrimPrefix(more, "policies: {}\n")))
	waitPage(t, "http://"+admin+"/readyz", `"ready":true`)
	return strings.NewReplacer("$DIR", dir, "$OPEN", open, "$ADMIN", admin, "$SECURE", secure, "$KEYEDADMIN",
		keyedAdmin, "$KEYED", keyed, "$NOBODY", check.ClosedPort(t))
}

// TestRedisUnreachable: the gateway serves without Redis, and its log and capgate status say so.
func TestRedisUnreachable(t *testing.T) {
	t.Parallel()
	nobody := check.ClosedPort(t)
	file := writeConfig(t, configOf("", gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr))
	p, _, admin := serve(t, nil, file, "--redis", "redis://"+nobody)
	p.stderr.wait(t, p, `"because":"nothing listens at `+nobody+`; check redis in the configuration"`)
	if exit, out, errs := runProgram(t, nil, "status", "--admin", admin); exit != 0 ||
		!strings.Contains(out, "redis away") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
}

// TestTLSToCleartext: a browser that speaks TLS to a cleartext port gets no response that it understands; the
// gateway's log names the mistake.
func TestTLSToCleartext(t *testing.T) {
	t.Parallel()
	p, public, _ := serve(t, nil, writeConfig(t, configOf("", gatewaytest.NewCapability("one").Serve(t,
		call.Doc).Addr)))
	//nolint:bodyclose // it fails
	if _, err := clienttest.HTTP.Get("https://" + public + "/v1/capabilities"); err == nil {
		t.Error("it speaks TLS")
	}
	p.stderr.wait(t, p, "TLS at a cleartext port")
}
