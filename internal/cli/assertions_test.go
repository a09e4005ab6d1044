package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const assertionHeader = "X-Capgate-Assertion"

// asserting are three gateways with one Redis, whose servers receive assertions.
type asserting struct {
	gateways    []*program
	publics     []string
	admins      []string
	file        string            // configuration
	config      string            // its text without a secret_file
	server      string            // URL of the MCP server
	credentials map[string]string // by tenant
	client      *http.Client
	capability  *gatewaytest.Capability
	service     *grpctest.Server
}

func startAsserting(t *testing.T) *asserting {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	a := &asserting{credentials: map[string]string{}, client: &http.Client{Transport: clienttest.Bound(transport)},
		capability: gatewaytest.NewCapability("one"), service: grpctest.Start(t, grpctest.Options{})}
	server := sdk.NewServer(&sdk.Implementation{Name: "files", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "whoami"},
		func(_ context.Context, q *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			text := strings.Join(q.Extra.Header.Values(assertionHeader), ",")
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "=" + text}}}, nil, nil
		})
	behind := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(behind.Close)
	a.server = behind.URL
	var tenants []string
	for _, of := range []string{"acme", "globex"} {
		credential, entry := operatorKey("asserts: [user, agent]")
		a.credentials[of] = credential
		tenants = append(tenants, "{id: "+of+", capabilities: ['*'], keys: ["+entry+"]}")
	}
	const fleet = "policy: allow, slow_start: 0s, " + patientProbes
	a.config = strings.Join([]string{
		"listen: 127.0.0.1:0", "admin: 127.0.0.1:0", "drain: {delay: 0s, timeout: 20s}", "overload: {max_delay: 10s}",
		"public_url: https://gateway.example.com",
		"redis: {url: '" + redistest.Start(t).URL() + "', timeout: 10s}",
		"tenants: [" + strings.Join(tenants, ", ") + "]",
		"fleets:",
		"- {capability: files, protocol: mcp, assertion: {}, " + fleet + ", backends: ['" + a.server + "']}",
		"- {capability: plain, protocol: mcp, " + fleet + ", backends: ['" + a.server + "']}",
		"- {capability: demo, protocol: grpc, grpc_service: {methods: [demo.v1.Demo/Echo]}, assertion: {}, " + fleet +
			", backends: ['" + a.service.Addr + "']}",
		"- {capability: caps, assertion: {audience: 'https://caps.example.com'}, " + fleet + ", backends: ['" +
			a.capability.Serve(t, call.Doc).Addr + "']}",
		"- {capability: bare, " + fleet + ", backends: ['" + a.capability.Serve(t, call.Doc).Addr + "']}",
	}, "\n") + "\n"
	a.file = writeConfig(t, a.config)
	for range 3 {
		p, public, admin := serve(t, nil, "--config", a.file)
		a.gateways, a.publics, a.admins = append(a.gateways, p), append(a.publics, public), append(a.admins, admin)
	}
	return a
}

// call calls a tool as a user of a tenant. The caller sends an assertion of its own as well.
func (a *asserting) call(t *testing.T, gateway int, of, user, capability, tool string) (result string) {
	t.Helper()
	url := "http://" + a.publics[gateway] + "/v1/capabilities/" + capability + "/tools/" + tool
	check.Until(t, url, func() (bool, string) { // until the first probe and the list of tools
		resp, body := clienttest.Send(t, a.client, http.MethodPost, url, "{}", "Authorization",
			"Bearer "+a.credentials[of], "X-User-Id", user, "X-Agent-Id", "planner", "X-Request-Id", "r-"+user,
			assertionHeader, "forged", "X-Capgate-Caller", "gateway=true", "Grpc-Metadata-"+assertionHeader, "forged")
		result = body
		return resp.StatusCode == http.StatusOK, body
	})
	return result
}

// keys returns the keys that a gateway publishes. No credential is needed.
func (a *asserting) keys(t *testing.T, gateway int) string {
	t.Helper()
	code, set := page(t, "http://"+a.publics[gateway]+"/.well-known/jwks.json")
	if code != http.StatusOK || strings.Contains(set, `"d"`) {
		t.Errorf("the keys of gateway %d: %d %s", gateway, code, set)
	}
	return set
}

// verify verifies an assertion with the keys of a gateway, and compares its claims.
func (a *asserting) verify(t *testing.T, set, token, audience, of, user string) {
	t.Helper()
	got, err := issuertest.Verify([]byte(set), token, audience, time.Now())
	if err != nil {
		t.Errorf("%s: %v", token, err)
	}
	for name, want := range map[string]string{"iss": "https://gateway.example.com", "sub": of + "/user/" + user,
		"caller": "user", "tenant": of, "user": user, "agent": "planner", "request_id": "r-" + user} {
		if got[name] != want {
			t.Errorf("%s of %s at %s is %v, want %s", name, user, of, got[name], want)
		}
	}
	if _, err := issuertest.Verify([]byte(set), token, audience+"/other", time.Now()); err == nil {
		t.Error("another server accepts the assertion")
	}
}

// whoami calls the tool of the MCP server that returns its assertion.
func (a *asserting) whoami(t *testing.T, gateway int, of, user, capability string) (token string) {
	t.Helper()
	var text string
	check.Must(t, json.Unmarshal([]byte(a.call(t, gateway, of, user, capability, "whoami")), &text))
	return strings.TrimPrefix(text, "=")
}

// last returns the metadata of the last call of the capability's tools.
func (a *asserting) last() (md metadata.MD) {
	for _, seen := range a.capability.Seen() {
		if seen.Request != nil {
			md = seen.Metadata
		}
	}
	return md
}

// TestAssertions: servers behind three gateways with one Redis know the caller of each call from an assertion, which
// they verify with the keys of any gateway. What callers send has no effect.
func TestAssertions(t *testing.T) {
	t.Parallel()
	a := startAsserting(t)
	for gateway := range a.gateways {
		set := a.keys(t, (gateway+1)%3)
		for _, of := range []string{"acme", "globex"} {
			user := fmt.Sprintf("ann-%d", gateway)
			a.verify(t, set, a.whoami(t, gateway, of, user, "files"), a.server, of, user)
			if token := a.whoami(t, gateway, of, user, "plain"); token != "" {
				t.Errorf("a server that wants no assertion received %s", token)
			}
			a.call(t, gateway, of, user, "demo", "Echo")
			a.verify(t, set, strings.Join(a.service.Metadata().Get(assertionHeader), ","), "demo", of, user)
			for capability, wants := range map[string]bool{"caps": true, "bare": false} {
				a.call(t, gateway, of, user, capability, gatewaytest.Echo)
				seen := a.last()
				tokens := seen.Get(assertionHeader)
				if wants {
					a.verify(t, set, strings.Join(tokens, ","), "https://caps.example.com", of, user)
				} else if len(tokens) > 0 {
					t.Errorf("%s received %q", capability, tokens)
				}
				if told := seen.Get("x-capgate-caller"); len(told) > 0 {
					t.Errorf("%s received %q", capability, told)
				}
			}
		}
	}
	a.overGRPC(t)
	a.byOperator(t)
	a.inPython(t)
	a.rotate(t)
	for _, p := range a.gateways {
		if strings.Contains(p.stderr.String(), "eyJ") {
			t.Error("the log of a gateway has an assertion")
		}
	}
}

// inPython verifies an assertion with the program of the documentation.
func (a *asserting) inPython(t *testing.T) {
	t.Helper()
	_, program, _ := strings.Cut(read(t, "docs/run/identity.md"), "```python\nimport jwt\n")
	program, _, _ = strings.Cut(program, "```")
	program = strings.NewReplacer("https://gateway.example.com/.well-known", "http://"+a.publics[1]+"/.well-known",
		"https://files.example.com/mcp", a.server).Replace(program)
	if out := tells(t, t.TempDir(), installed(t, "venv", "bin", "python"), "-c",
		"import jwt\n"+program+"print(caller_of('"+a.whoami(t, 0, "acme", "ann", "files")+"')['sub'])"); out !=
		"acme/user/ann\n" {
		t.Error(out)
	}
}

// overGRPC sends a forged assertion in metadata to a fleet with assertions, and to one without.
func (a *asserting) overGRPC(t *testing.T) {
	t.Helper()
	client, set := dial(t, a.publics[0]), a.keys(t, 0)
	for capability, wants := range map[string]bool{"caps": true, "bare": false} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+a.credentials["acme"],
			"x-user-id", "bob", "x-agent-id", "planner", "x-request-id", "r-bob", assertionHeader, "forged",
			"x-capgate-caller", "gateway=true")
		_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: capability, ToolName: gatewaytest.Echo,
			ArgsJson: []byte("{}")})
		check.Must(t, err)
		tokens := a.last().Get(assertionHeader)
		if wants {
			a.verify(t, set, strings.Join(tokens, ","), "https://caps.example.com", "acme", "bob")
		} else if len(tokens) > 0 || len(a.last().Get("x-capgate-caller")) > 0 {
			t.Errorf("%s received %q", capability, a.last())
		}
	}
}

// byOperator calls as an operator in the playground. The user that the operator enters is not verified.
func (a *asserting) byOperator(t *testing.T) {
	t.Helper()
	resp, body := clienttest.Send(t, a.client, http.MethodPost, "http://"+a.admins[0]+"/v1/playground:invoke",
		`{"tenant":"acme","user":"ann","capability":"caps","tool":"`+gatewaytest.Echo+`"}`, "Content-Type",
		"application/json", "X-Capgate-Csrf", "1")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	got, err := issuertest.Verify([]byte(a.keys(t, 0)), strings.Join(a.last().Get(assertionHeader), ","),
		"https://caps.example.com", time.Now())
	check.Must(t, err)
	if got["sub"] != "acme/operator/operator" || got["caller"] != "operator" || got["user"] != "ann" ||
		got["credential"] != nil {
		t.Errorf("%v", got)
	}
}

// rotate replaces the secret in Redis with that of a file, and then that of the file. Servers accept the calls of all
// gateways with the keys of any.
func (a *asserting) rotate(t *testing.T) {
	t.Helper()
	secret := writeConfig(t, "")
	secrets := []string{strings.Repeat("1a", 32), strings.Repeat("2b", 32)}
	all := map[string]bool{strings.Join(kidsOf(t, a.keys(t, 0)), " "): true}
	for step, lines := range [][]string{secrets[:1], secrets, {secrets[1], secrets[0]}, secrets[1:]} {
		check.Must(t, os.WriteFile(secret, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		check.Must(t, os.WriteFile(a.file, []byte(a.config+"secret_file: "+secret+"\n"), 0o600))
		for _, p := range a.gateways {
			p.signal(t, syscall.SIGHUP)
		}
		var set string
		check.Until(t, fmt.Sprintf("the keys of step %d", step), func() (bool, string) {
			set = a.keys(t, 0)
			ids := kidsOf(t, set)
			is := len(ids) == len(lines) && !all[strings.Join(ids, " ")] && a.keys(t, 1) == set && a.keys(t, 2) == set
			return is, set
		})
		all[strings.Join(kidsOf(t, set), " ")] = true
		for gateway := range a.gateways {
			a.verify(t, set, a.whoami(t, gateway, "acme", "ann", "files"), a.server, "acme", "ann")
		}
	}
}

// kidsOf returns the ids of a JWK Set.
func kidsOf(t *testing.T, set string) (ids []string) {
	t.Helper()
	var of struct{ Keys []struct{ Kid string } }
	check.Must(t, json.Unmarshal([]byte(set), &of))
	for _, k := range of.Keys {
		ids = append(ids, k.Kid)
	}
	return ids
}
