package cli

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// passed are the secrets that calls carry unchanged, and that may reach a backend.
var passed = []string{"config_json", "config_json of JSON", "arguments", "a header", "baggage",
	"tracestate", "idempotency key", "arguments of JSON",
	"arguments through forward, a good key", "config_json through forward, a good key"}

// TestSecretsComeOutNowhere: secrets that are planted in every input of a gateway that logs at debug level do
// not appear in its output.
func TestSecretsComeOutNowhere(t *testing.T) {
	t.Parallel()
	c := newCanaries(t)
	c.spare("backend", passed...)
	c.spare("engine", toEngines...)
	c.spare("capgate engines send", "message of the program")
	c.spare("shield", "arguments", "shield's URL")
	c.spare("webhook", "webhook's URL")
	c.spare("MCP server", "access token", "token of a login", "former token of a login",
		"short token of a login", "refreshed token of a login")
	c.spare("spans", "tracestate") // W3C Trace Context puts it there

	g := startSecretive(t, c)
	g.makeKeys(t)
	g.logIn(t)
	g.call(t)
	g.identifyOtherwise(t)
	g.contradictListener(t)
	g.throughProxy(t)
	g.throughForward(t)
	g.signURL(t)
	g.talk(t)
	g.queryEverything(t)
	g.look(t)
	g.refresh(t)
	g.stop(t)
	g.monitored()
	for i, seen := range g.capability.Seen() {
		for _, token := range seen.Metadata.Get(assertionHeader) {
			c.spare("backend", "assertion "+strconv.Itoa(i))
			c.plantAs("assertion "+strconv.Itoa(i), token)
		}
		c.scan("backend", fmt.Sprint(map[string][]string(seen.Metadata), seen.Request))
	}
	if len(c.spared["backend"]) == len(passed) {
		t.Error("no backend received an assertion")
	}
	for _, span := range g.collector.Spans(t, 1) {
		c.scan("spans", fmt.Sprintf("%+v", span))
	}
	c.search()
}

// secretive is a gateway that received secrets.
type secretive struct {
	*canaries
	program       *program
	file          string
	public, admin string
	audit         string   // its file
	second        *program // a replica whose audit log is its standard output
	secondPublic  string
	capability    *gatewaytest.Capability
	authority     *certtest.Authority // of clients
	issuer        *issuertest.Issuer
	key           string        // a valid one
	spawned       chan string   // tokens of sub-agents to start
	cert          string        // file of the gateway's certificate
	monitored     func()        // returns what Redis received
	notified      chan struct{} // received by the webhook
	collector     *oteltest.Collector
	logged        *oauthtest.Authority // of the fleet logged
}

// proxyHost is the address of a trusted proxy of a secretive gateway.
const proxyHost = "127.0.0.2"

func startSecretive(t *testing.T, c *canaries) *secretive {
	t.Helper()
	g := &secretive{
		canaries: c, capability: gatewaytest.NewCapability("b1"), notified: make(chan struct{}, 100),
		collector: oteltest.Start(t),
		authority: certtest.New(t), issuer: issuertest.Start(t),
	}
	redis := redistest.Start(t)
	redis.Do("ACL", "SETUSER", "capgate", "on", ">"+c.plant("password of Redis"), "~*", "&*", "+@all")
	g.monitored = monitor(t, c, redis.Addr)
	listen := func(sink, answer string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			c.scan(sink, fmt.Sprintf("%s %v %s", r.URL, r.Header, body))
			_, _ = io.WriteString(w, answer)
			if sink == "webhook" {
				g.notified <- struct{}{}
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	cert, key := certificate(t, 1)
	c.plantAs("key of the certificate", strings.Split(key, "\n")[1][20:60])
	pepper := c.plant("pepper")
	id, secret := tenant.NewCredential()
	g.key = tenant.Credential(id, c.plantAs("API key", secret))
	sealing := []byte(c.plant("secret of the replicas"))
	files := configMap{dir: t.TempDir()}
	backend := g.capability.Serve(t, call.Doc).Addr
	files.put(t, map[string]string{
		"tls.crt": cert, "tls.key": key, "pepper": pepper, "webhook": c.plant("webhook's secret"),
		"secret":      base64.StdEncoding.EncodeToString(sealing),
		"clients.crt": g.authority.PEM, "manifest.yaml": secretiveManifest(c.plant("comment of a manifest")),
		"hash": tenant.HashOf(secret, []byte(pepper)).String(), "headers": "Authorization: Basic " +
			c.plant("credential of traces") + "\n",
		"capgate.yaml": strings.Join(append([]string{
			"listen: 127.0.0.1:0", "admin: 127.0.0.1:0", "drain: {delay: 0s, timeout: 20s}", "domains: [caps.test]",
			"log: {level: debug}", "overload: {max_delay: 10s}", "policies: {}",
			"tls: {cert_file: " + files.file("tls.crt") + ", key_file: " + files.file("tls.key") +
				", client_ca_file: " + files.file("clients.crt") + ", client_auth: optional}",
			"trusted_proxies: {from: [" + proxyHost + "], hops: 1}", "proxy_protocol: v2",
			"certificates: [{spiffe: 'spiffe://example.org/known', tenant: acme}]",
			"redis: {timeout: 10s}",
			"issuers: [{name: corp, issuer: '" + g.issuer.URL + "', audiences: [capgate], ca_file: " + g.issuer.CAFile +
				"}]", "identity: {store: redis}",
			"listeners: [{address: '127.0.0.1:0', tenant: acme, capability: caps, user: ann, session: s}]",
			"limits: {calls_per_second: 100000, concurrent: 1000, per_day: 1000000, each: [{per: user, " +
				"calls_per_second: 100000}]}",
			"pepper_file: " + files.file("pepper"),
			"secret_file: " + files.file("secret"),
			"approvals: {notices: [{name: webhook, url: '" +
				listen("webhook", "") + "/?token=" + c.plant("webhook's URL") + "', secret_file: " +
				files.file("webhook") + "}]}",
			"shields: [{name: main, url: '" + listen("shield", `{"decision":"ALLOW"}`) + "/evaluate?token=" +
				c.plant("shield's URL") + "', timeout: 10s}, {name: away, url: 'http://127.0.0.1:1/" +
				c.plant("shield's path") + "'}]",
			"traces: {endpoint: '" + g.collector.Addr + "', sample: 1, headers_file: " + files.file("headers") + "}",
			"tenants:",
			"- {id: acme, capabilities: ['*'], keys: [{id: " + id + ", hash_file: " + files.file("hash") +
				", scopes: [invoke, read, approve, policy, engine.chat, engine.agent, engine.subagent, " +
				"engine.admin, engine.shield], asserts: [user, agent]}]}",
			"fleets:",
			"- {capability: caps, policy: allow, assertion: {}, affinity: session, manifest: " +
				files.file("manifest.yaml") + ", backends: ['" + backend + "']}",
			"- {capability: judged, policy: allow, shield: main, backends: ['" + backend + "']}",
			"- {capability: unjudged, policy: allow, shield: away, backends: ['" + backend + "']}",
			"- {capability: people, policy: ask, backends: ['" + backend + "']}",
			"- {capability: gone, policy: allow, backends: ['127.0.0.1:1']}",
		}, slices.Concat(g.serveEngines(t), g.serveTokens(t))...), "\n") + "\n",
	})
	g.file, g.cert, g.audit = files.file("capgate.yaml"), files.file("tls.crt"), filepath.Join(t.TempDir(), "audit.log")
	text, err := os.ReadFile(g.file)
	check.Must(t, err)
	url := "redis://capgate:" + c.planted["password of Redis"] + "@" + redis.Addr
	second := writeConfig(t, string(text)+"audit: {to: stdout}\n")
	check.Must(t, os.WriteFile(g.file, append(text, "audit: {to: "+g.audit+"}\n"...), 0o600))
	g.program, g.public, g.admin = serve(t, nil, "--config", g.file, "--redis", url)
	g.second, g.secondPublic, _ = serve(t, nil, "--config", second, "--redis", url)
	return g
}

// secretiveManifest is the manifest of the capability caps.
func secretiveManifest(secret string) string {
	return "id: caps\nclass: tool\nimage: caps\ntool_source: manifest # " + secret + `
tools:
  - {name: echo, description: Echo., input_schema: {type: object}}
  - {name: fail, description: Fail., input_schema: {type: object}}
  - {name: break, description: Break., input_schema: {type: object}}
`
}

// monitor records everything that a Redis receives, until the returned function is called.
func monitor(t *testing.T, c *canaries, addr string) (end func()) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	check.Must(t, err)
	_, err = io.WriteString(conn, "MONITOR\r\n")
	check.Must(t, err)
	first := make([]byte, len("+OK\r\n"))
	_, err = io.ReadFull(conn, first)
	check.Must(t, err)
	said := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(conn)
		said <- string(all)
	}()
	t.Cleanup(func() { _ = conn.Close() })
	return func() {
		_ = conn.(*net.TCPConn).SetReadDeadline(time.Now())
		c.scan("Redis", <-said)
	}
}

// call makes calls of every kind, with secrets wherever a call has room for some.
func (g *secretive) call(t *testing.T) {
	t.Helper()
	id := strings.Split(g.key, "_")[1]
	shown := [][]string{
		{"authorization", "Bearer " + g.key}, {"x-api-key", g.key}, nil,
		{"authorization", "Bearer " + tenant.Credential(id, g.plant("wrong API key"))},
		{"x-api-key", "cg_" + g.plant("garbled API key")},
		{"authorization", "Bearer eyJhbGciOiJub25lIn0." + g.plant("a token") + ".x"},
		{"authorization", "Basic " + g.plant("a password")},
		{"x-api-key", g.key, "authorization", "Bearer " + g.plant("another token")},
	}
	args, config := fmt.Sprintf(`{"password":%q}`, g.plant("arguments")),
		fmt.Sprintf(`{"API_KEY":%q}`, g.plant("config_json"))
	asked := fmt.Sprintf(`{"password":%q}`, g.plant("arguments to be approved"))
	asJSON := fmt.Sprintf(`{"tool_name":"echo","args":{"token":%q},"config":{"k":%q}}`, g.plant("arguments of JSON"),
		g.plant("config_json of JSON"))
	besides := []string{
		"cookie", "session=" + g.plant("cookie"), "x-custom", g.plant("a header"), "traceparent",
		"00-0123456789abcdef0123456789abcdef-0123456789abcdef-01", "tracestate", "k=" + g.plant("tracestate"),
		"baggage", "k=" + g.plant("baggage"), "idempotency-key", g.plant("idempotency key"),
		"x-tenant-id", g.plant("x-tenant-id"), "x-forwarded-for", g.plant("x-forwarded-for"), "forwarded", "for=" +
			g.plant("forwarded"),
		"x-capgate-caller", "tenant=acme&key=" +
			g.plant("caller"), "x-capgate-ticket", g.plant("ticket"), "grpc-metadata-x", g.plant("grpc-metadata"),
	}
	g.callWith(t, g.secondPublic, append(slices.Clone(shown[0]), besides...), said{args, config, asked, asJSON})
	for _, header := range append(shown, g.tokens(t)...) {
		g.callWith(t, g.public, append(header, besides...), said{args, config, asked, asJSON})
	}
	check.Received(t, g.notified, "a request to the webhook")
}

// said has the contents of calls besides headers.
type said struct{ args, config, asked, json string }

func (g *secretive) callWith(t *testing.T, public string, header []string, s said) {
	t.Helper()
	conn := connectTo(t, public)
	defer conn.Close()
	client := docpb.NewCapabilityClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), header...)
	for _, capability := range []string{"caps", "judged", "unjudged", "people", "gone", "absent", "tokens",
		"untokened", "logged"} {
		for _, tool := range []string{gatewaytest.Echo, gatewaytest.Fail, gatewaytest.Break} {
			req := &docpb.InvokeRequest{CapabilityId: capability, ToolName: tool, ArgsJson: []byte(s.args),
				ConfigJson: []byte(s.config), SessionId: "s"}
			if capability == "people" {
				req.ArgsJson = []byte(s.asked)
			}
			_, err := client.Invoke(ctx, req)
			g.answered(err)
		}
	}
	_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "judged", ToolName: "echo",
		ArgsJson: []byte(s.args[:len(s.args)-1])})
	g.answered(err)
	g.overHTTP(t, public, s.json, header)
}

// connectTo returns a TLS connection to a gateway, with client certificates if there are any.
func connectTo(t *testing.T, public string, certs ...tls.Certificate) *grpc.ClientConn {
	t.Helper()
	conn, err := clienttest.NewConn("passthrough:///"+public,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: certs})))
	check.Must(t, err)
	return conn
}

// answered records the gateway's own text about a call, without the backend's.
func (g *secretive) answered(err error) {
	if st := status.Convert(err); strings.Contains(st.Proto().String(), "capgate.dev") {
		g.scan("gRPC", st.Proto().String())
	}
}

func (g *secretive) overHTTP(t *testing.T, public, body string, header []string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Timeout: check.Patience}
	defer client.CloseIdleConnections()
	query := "?token=" + g.secretOf("query string")
	g.overMCP(t, client, "https://"+public+"/mcp"+query, body, header)
	for _, path := range []string{"/v1/capabilities/caps/invoke", "/v1/capabilities/people/invoke",
		"/v1/capabilities/absent/invoke", "/v1/capabilities", "/v1/approvals", "/v1/nothing"} {
		for _, body := range []string{body, body[:len(body)-1]} {
			method := http.MethodPost
			if !strings.HasSuffix(path, "invoke") {
				method = http.MethodGet
			}
			resp, text := clienttest.Send(t, client, method, "https://"+public+path+query, body, header...)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK || method == http.MethodGet {
				g.scan("JSON", fmt.Sprintf("%v %s", resp.Header, text))
			}
		}
	}
}

// overMCP records the errors of MCP for an unknown tool and for a truncated message.
func (g *secretive) overMCP(t *testing.T, client *http.Client, address, args string, header []string) {
	t.Helper()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"absent__echo","arguments":` + args + `}}`
	for _, body := range []string{call, call[:len(call)-3], "[" + call + "]"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		check.Must(t, err)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		check.Must(t, err)
		text, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		_ = resp.Body.Close()
		g.scan("MCP", fmt.Sprintf("%v %s", resp.Header, text))
	}
}
