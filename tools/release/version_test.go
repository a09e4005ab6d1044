package main

import (
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// agents is a server for all requests of the program. It records their User-Agents.
type agents struct {
	addr   string
	secure *httptest.Server // the same over TLS
	mu     sync.Mutex
	seen   map[string]string // path of the last request, by the User-Agent without gRPC's part
	more   chan struct{}     // signals that seen has changed; has room for one signal
}

func newAgents(t *testing.T) *agents {
	t.Helper()
	a := &agents{seen: map[string]string{}, more: make(chan struct{}, 1)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(a.record))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	a.addr = strings.TrimPrefix(server.URL, "http://")
	a.secure = httptest.NewTLSServer(server.Config.Handler)
	t.Cleanup(a.secure.Close)
	return a
}

// record fails every request: no gRPC method and no page exists.
func (a *agents) record(w http.ResponseWriter, r *http.Request) {
	agent, _, _ := strings.Cut(r.UserAgent(), " ")
	a.mu.Lock()
	a.seen[agent] = r.URL.Path
	a.mu.Unlock()
	select {
	case a.more <- struct{}{}:
	default: // a signal is pending
	}
	if r.Header.Get("Content-Type") == "application/grpc" {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "12") // unimplemented
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// wait waits for requests with a User-Agent, and returns all that were seen.
func (a *agents) wait(t *testing.T, agent string) map[string]string {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		a.mu.Lock()
		seen := maps.Clone(a.seen)
		a.mu.Unlock()
		if seen[agent] != "" {
			return seen
		}
		select {
		case <-a.more:
		case <-limit:
			t.Fatalf("no request with the User-Agent %s; there were %v", agent, seen)
		}
	}
}

// versionConfig has one of everything that the gateway sends requests to.
const versionConfig = `
redis: {url: '$redis'}
issuers: [{name: corp, issuer: 'http://$addr/issuer', audiences: [capgate], insecure: true}]
kubernetes: {api: {address: '$kubernetes', ca_file: '$dir/ca.pem'}}
traces: {endpoint: '$traces', sample: 1}
approvals: {notices: [{name: webhook, url: 'http://$addr/webhook', secret_file: '$dir/secret'}]}
shields: [{name: main, $shield}]
tenants: [{id: default, capabilities: ['*'], keys: [$key]}]
fleets:
  - {capability: asked, policy: ask, backends: ['$addr']}
  - {capability: shielded, policy: allow, shield: main, dialect: doc, backends: ['$addr']}
  - {capability: tools, protocol: mcp, policy: allow, backends: ['http://$addr/mcp']}
  - {capability: pods, policy: allow, kubernetes: {namespace: tools, service: pods}}
`

// TestVersionIsEverywhere: every request of the program has its version in the User-Agent: the gateway's requests to
// backends, issuers, shields, webhooks, collectors and Kubernetes, and those of commands. So does the name of its
// connections to Redis. TestTheArchiveRuns checks the metrics, the console and the command version.
func TestVersionIsEverywhere(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]struct{ traces, shield, traced, judged string }{
		"HTTP": {"http://$addr/traces", "url: 'http://$addr/shield'", "/traces", "/shield"},
		"gRPC": {"$addr", "address: '$addr'", "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
			"/openparallax.v1.ShieldService/Evaluate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := strings.NewReplacer("$traces", form.traces, "$shield", form.shield).Replace(versionConfig)
			seen := sentBy(t, filepath.Join(unpack(t), "capgate"), config)
			for agent, path := range seen {
				if !strings.HasPrefix(agent, "capgate") || !strings.HasSuffix(agent, "/"+testVersion) {
					t.Errorf("%s: User-Agent %q has no version", path, agent)
				}
			}
			if path := seen["capgate-tracing/"+testVersion]; path != form.traced {
				t.Errorf("traces were sent to %s", path)
			}
			if path := seen["capgate-shield/"+testVersion]; path != form.judged {
				t.Errorf("the shield was called at %s", path)
			}
		})
	}
}

// sentBy runs a gateway with a configuration, and commands, until each has sent a request. It returns the path of the
// last request by its User-Agent.
func sentBy(t *testing.T, capgate, config string) map[string]string {
	t.Helper()
	a, r, dir := newAgents(t), startRedis(t), t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: a.secure.Certificate().Raw}), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(strings.Repeat("a secret of the tests ", 3)), 0o600))
	key, entry, _ := strings.Cut(command(t, exec.Command(capgate, "keys", "new")), "\n")
	_, entry, _ = strings.Cut(entry, "- ")
	values := map[string]string{"addr": a.addr, "kubernetes": a.secure.URL, "dir": dir, "redis": r.url,
		"key": strings.TrimSpace(entry)}
	file := filepath.Join(dir, "capgate.yaml")
	config = os.Expand(config, func(name string) string { return values[name] })
	must(t, os.WriteFile(file, []byte(config), 0o600))
	log := start(t, exec.Command(capgate, "serve", "--config", file, "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0"), `"msg":"serving"`)
	if clients := r.clients(t); !strings.Contains(clients, " name=capgate/"+testVersion+" ") {
		t.Errorf("the clients of Redis are\n%s", clients)
	}
	public := regexp.MustCompile(`"listen":"([^"]+)"`).FindStringSubmatch(log)[1]
	for _, capability := range []string{"asked", "shielded"} {
		cmd := exec.CommandContext(t.Context(), capgate, "invoke", capability, "echo", "{}", "--addr", public)
		cmd.Env = append(cmd.Environ(), "CAPGATE_KEY="+strings.TrimSpace(key))
		_, _ = cmd.CombinedOutput() // the calls fail
	}
	for _, args := range [][]string{{"status", "--admin", "http://" + a.addr + "/command"}, {"probe", a.addr}} {
		_, _ = exec.CommandContext(t.Context(), capgate, args...).CombinedOutput() // the commands fail
	}
	seen := map[string]string{}
	for _, want := range []string{"capgate-health", "capgate-mcp", "capgate-issuer", "capgate-kubernetes",
		"capgate-tracing", "capgate-webhook", "capgate-shield", "capgate-status", "capgate-conform"} {
		seen = a.wait(t, want+"/"+testVersion)
	}
	return seen
}
