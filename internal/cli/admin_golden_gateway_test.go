package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/internal/app"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// goldenConfig is the configuration of the gateway behind the golden file.
const goldenConfig = `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
drain: {delay: 0s}
policies: {}
log: {level: error}
redis: embedded
identity: {store: redis}
registration: {capabilities: ['gen-*'], allow: [127.0.0.0/8]}
approvals: {notices: [{name: webhook, url: '$webhook', secret_file: '$dir/secret'}]}
issuers: [{name: corp, issuer: '$issuer', audiences: [capgate], ca_file: '$issuer_ca'}]
tenants:
  - {id: acme, capabilities: ['*'], keys: [$callers], limits: {calls_per_second: 100, burst: 200, concurrent: 50,
      per_day: 1000000, per_month: 1000000000, each: [{per: user, per_day: 1000},
      {capability: weather, tool: echo, concurrent: 4}]}}
  - {id: globex, capabilities: [weather], keys: [$globex], limits: {per_month: 5, shadow: true}}
operators: {keys: [$operators], people: [{issuer: corp, user: bea, roles: [viewer], tenant: acme},
  {issuer: corp, user: bea, roles: [admin], tenant: globex}, {issuer: corp, user: cid, roles: [viewer]},
  {issuer: corp, user: cid, roles: [approver], tenant: acme}]}
fleets:
  - {capability: weather, manifest: '$dir/weather.yaml', slow_start: 0s, backends: [{addr: '$up', zone: a, weight: 7},
      '$down'], max_concurrent: 8}
  - {capability: listed, manifest: '$dir/listed.yaml', policy: allow, slow_start: 0s, discovery: {interval: 1h},
      backends: ['$up']}
  - {capability: plain, policy: allow, slow_start: 0s, backends: ['$up']}
  - {capability: asks, policy: ask, slow_start: 0s, backends: ['$up']}
  - {capability: thinker, protocol: openparallax, services: [openparallax.v1.ClientService], backends: ['$engine']}
`

// addKeys adds keys of operators and of acme to a configuration.
func (g *goldenGateway) addKeys(config, named map[string]string) {
	var operators, callers []string
	add := func(name, more string, to *[]string) {
		key, entry := operatorKey(more)
		g.keys[name], *to = key, append(*to, entry)
		id, _, _ := strings.Cut(strings.TrimPrefix(entry, "{id: "), ",")
		named[id] = "KEY"
	}
	add("admin", "name: root, roles: [admin]", &operators)
	add("viewer", "name: viewer, roles: [viewer]", &operators)
	add("acme's viewer", "roles: [viewer], tenant: acme", &operators)
	add("no role", "scopes: [invoke, read, approve, policy, admin]", &callers)
	add("caller", "scopes: [invoke], asserts: [user]", &callers)
	var globex []string
	add("of globex", "name: desk, scopes: [read], expires: 2099-01-01T00:00:00Z", &globex)
	config["globex"] = globex[0]
	config["operators"], config["callers"] = strings.Join(operators, ", "), strings.Join(callers, ", ")
}

// startGolden starts the gateway.
func startGolden(t *testing.T) *goldenGateway {
	t.Helper()
	g := &goldenGateway{guardedGateway: &guardedGateway{keys: map[string]string{}, issuer: issuertest.Start(t)}}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"secret":       strings.Repeat("a secret of the tests ", 3),
		"weather.yaml": strings.Replace(manifestOf("allow"), "id: caps", "id: weather", 1),
		"listed.yaml":  "id: listed\nimage: i\ntool_source: dynamic\n",
	} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	}))
	t.Cleanup(refuses.Close)
	capability := gatewaytest.NewCapability("one")
	capability.Lists = func() ([]byte, string, error) {
		return []byte(`[{"name": "echo", "description": "repeats", "input_schema": {"type": "object"}, ` +
			`"recommended_policy": "allow"}]`), "", nil
	}
	config := map[string]string{"dir": dir, "webhook": refuses.URL, "issuer": g.issuer.URL,
		"issuer_ca": g.issuer.CAFile, "up": capability.Serve(t, call.Doc).Addr, "down": gatewaytest.Unreachable(t),
		"engine": gatewaytest.Serve(t, engine.New(engine.Config{}).Register).Addr}
	named := map[string]string{config["up"]: "UP", config["down"]: "DOWN", config["engine"]: "ENGINE",
		g.issuer.URL: "ISSUER"}
	g.addKeys(config, named)
	g.keys["bea"] = g.issuer.Token(t, map[string]any{"sub": "bea"})
	g.keys["cid"] = g.issuer.Token(t, map[string]any{"sub": "cid"})
	g.vars = map[string]string{"up": config["up"], "down": config["down"], "key": g.keys["admin"],
		"caller": g.keys["caller"]}
	g.serve(t, config, named)
	return g
}

// serve runs the gateway until the test ends, and waits for its backends.
func (g *goldenGateway) serve(t *testing.T, config, named map[string]string) {
	t.Helper()
	file := filepath.Join(config["dir"], "capgate.yaml")
	text := os.Expand(goldenConfig, func(name string) string { return config[name] })
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := settings.Load(file, settings.Overrides{})
	check.Must(t, err)
	s.Config.Replicas.ID = "replica-of-the-golden-file"
	p, err := app.New(s, app.Options{Log: io.Discard, Version: "1"})
	check.Must(t, err)
	named[s.Config.Replicas.ID] = "REPLICA"
	var pairs []string
	for value, name := range named {
		pairs = append(pairs, value, name)
	}
	g.patterns, g.names = routesOfMux(t, p), strings.NewReplacer(pairs...)
	g.admin, g.public = p.AdminAddr(), p.PublicAddr()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		check.Must(t, check.Received(t, ended, "the process to end"))
	})
	g.conn, err = clienttest.NewConn("passthrough:///"+g.admin,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	t.Cleanup(func() { _ = g.conn.Close() })
	waitPage(t, "http://"+g.admin+"/readyz", `"ready":true`)
	check.Until(t, "the backends to be probed", func() (bool, string) {
		_, text := request(t.Context(), t, "GET", "http://"+g.admin+"/v1/fleets", g.keys["admin"])
		return strings.Count(text, `"state":"up"`) == 5 && strings.Count(text, `"state":"down"`) == 1, text
	})
}
