package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/gatewaytest"
	"github.com/capgate/capgate/internal/oteltest"
	"github.com/capgate/capgate/internal/redistest"
	"github.com/capgate/capgate/internal/tenant"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// What is passed on with calls as it came, so that it may arrive at a backend.
var passed = []string{"config_json", "config_json of JSON", "arguments", "cookie", "a header", "baggage", "tracestate", "idempotency key", "arguments of JSON"}

// TestSecretsComeOutNowhere plants secrets in every door of a gateway that serves at debug
// level, and looks for them in everything that it says to anybody.
func TestSecretsComeOutNowhere(t *testing.T) {
	t.Parallel()
	c := newCanaries(t)
	c.spare("backend", passed...)
	c.spare("shield", "arguments", "shield's URL")
	c.spare("webhook", "webhook's URL")
	c.spare("spans", "tracestate") // W3C Trace Context has it there

	g := startSecretive(t, c)
	g.call(t)
	g.look(t)
	g.program.stop(t) // all spans are sent
	c.told("log", g.program.stderr.String())
	c.told("log", g.program.stdout.String())
	g.monitored()
	for _, seen := range g.capability.Seen() {
		c.told("backend", fmt.Sprint(map[string][]string(seen.Metadata), seen.Request))
	}
	for _, span := range g.collector.Spans(t, 1) {
		c.told("spans", fmt.Sprintf("%+v", span))
	}
	c.search()
}

// secretive is a gateway that was given secrets.
type secretive struct {
	*canaries
	program       *program
	file          string
	public, admin string
	capability    *gatewaytest.Capability
	key           string        // that is good
	monitored     func()        // tells what Redis was sent
	notified      chan struct{} // the webhook was
	collector     *oteltest.Collector
}

func startSecretive(t *testing.T, c *canaries) *secretive {
	t.Helper()
	g := &secretive{canaries: c, capability: gatewaytest.NewCapability("b1"), notified: make(chan struct{}, 100), collector: oteltest.Start(t)}
	redis := redistest.Start(t)
	redis.Do("ACL", "SETUSER", "capgate", "on", ">"+c.plant("password of Redis"), "~*", "&*", "+@all")
	g.monitored = monitor(t, c, redis.Addr)
	listen := func(sink, answer string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			c.told(sink, fmt.Sprintf("%s %v %s", r.URL, r.Header, body))
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
	sealing := []byte(c.plant("key of approvals"))
	files := configMap{dir: t.TempDir()}
	backend := g.capability.Serve(t, call.Doc).Addr
	files.put(t, map[string]string{
		"tls.crt": cert, "tls.key": key, "pepper": pepper, "webhook": c.plant("webhook's secret"), "approvals": base64.StdEncoding.EncodeToString(sealing),
		"hash": tenant.HashOf(secret, []byte(pepper)).String(), "headers": "Authorization: Basic " + c.plant("credential of traces") + "\n",
		"capgate.yaml": strings.Join([]string{
			"listen: 127.0.0.1:0", "admin: 127.0.0.1:0", "domains: [caps.test]", "log: {level: debug}", "policies: {}",
			"tls: {cert_file: " + files.file("tls.crt") + ", key_file: " + files.file("tls.key") + "}",
			"pepper_file: " + files.file("pepper"),
			"approvals: {key_file: " + files.file("approvals") + ", webhook: {url: '" + listen("webhook", "") + "/?token=" + c.plant("webhook's URL") + "', secret_file: " + files.file("webhook") + "}}",
			"shields: [{name: main, url: '" + listen("shield", `{"decision":"ALLOW"}`) + "/evaluate?token=" + c.plant("shield's URL") + "', timeout: 10s}, {name: away, url: 'http://127.0.0.1:1/" + c.plant("shield's path") + "'}]",
			"traces: {endpoint: '" + g.collector.Addr + "', sample: 1, headers_file: " + files.file("headers") + "}",
			"tenants:",
			"- {id: acme, capabilities: ['*'], keys: [{id: " + id + ", hash_file: " + files.file("hash") + ", scopes: [invoke, read, approve, policy], asserts: [user, agent]}]}",
			"fleets:",
			"- {capability: caps, policy: allow, affinity: session, backends: ['" + backend + "']}",
			"- {capability: judged, policy: allow, shield: main, backends: ['" + backend + "']}",
			"- {capability: unjudged, policy: allow, shield: away, backends: ['" + backend + "']}",
			"- {capability: people, policy: ask, backends: ['" + backend + "']}",
			"- {capability: gone, policy: allow, backends: ['127.0.0.1:1']}",
		}, "\n") + "\n",
	})
	g.file = files.file("capgate.yaml")
	g.program, g.public, g.admin = serve(t, nil, "--config", g.file, "--redis", "redis://capgate:"+c.planted["password of Redis"]+"@"+redis.Addr)
	return g
}

// monitor listens to all that a Redis is sent, until what it returns is called.
func monitor(t *testing.T, c *canaries, addr string) (end func()) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	_, err = io.WriteString(conn, "MONITOR\r\n")
	must(t, err)
	first := make([]byte, len("+OK\r\n"))
	_, err = io.ReadFull(conn, first)
	must(t, err)
	said := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(conn)
		said <- string(all)
	}()
	t.Cleanup(func() { _ = conn.Close() })
	return func() {
		_ = conn.(*net.TCPConn).SetReadDeadline(time.Now())
		c.told("Redis", <-said)
	}
}

// call makes calls of every kind, with secrets wherever there is room for some.
func (g *secretive) call(t *testing.T) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+g.public, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	must(t, err)
	defer conn.Close()
	client := docpb.NewCapabilityClient(conn)
	id := strings.Split(g.key, "_")[1]
	shown := [][]string{
		{"authorization", "Bearer " + g.key}, {"x-api-key", g.key}, nil,
		{"authorization", "Bearer " + tenant.Credential(id, g.plant("wrong API key"))},
		{"x-api-key", "cg_" + g.plant("garbled API key")},
		{"authorization", "Bearer eyJhbGciOiJub25lIn0." + g.plant("a token") + ".x"},
		{"authorization", "Basic " + g.plant("a password")},
		{"x-api-key", g.key, "authorization", "Bearer " + g.plant("another token")},
	}
	args, config := fmt.Sprintf(`{"password":%q}`, g.plant("arguments")), fmt.Sprintf(`{"API_KEY":%q}`, g.plant("config_json"))
	asked := fmt.Sprintf(`{"password":%q}`, g.plant("arguments to be approved"))
	asJSON := fmt.Sprintf(`{"tool_name":"echo","args":{"token":%q},"config":{"k":%q}}`, g.plant("arguments of JSON"), g.plant("config_json of JSON"))
	besides := []string{
		"cookie", "session=" + g.plant("cookie"), "x-custom", g.plant("a header"), "traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01", "tracestate", "k=" + g.plant("tracestate"), "baggage", "k=" + g.plant("baggage"), "idempotency-key", g.plant("idempotency key"),
		"x-tenant-id", g.plant("x-tenant-id"), "x-forwarded-for", g.plant("x-forwarded-for"), "forwarded", "for=" + g.plant("forwarded"),
		"x-capgate-caller", "tenant=acme&key=" + g.plant("caller"), "x-capgate-ticket", g.plant("ticket"), "grpc-metadata-x", g.plant("grpc-metadata"),
	}
	for _, header := range shown {
		ctx := metadata.AppendToOutgoingContext(t.Context(), append(header, besides...)...)
		for _, capability := range []string{"caps", "judged", "unjudged", "people", "gone", "absent"} {
			for _, tool := range []string{gatewaytest.Echo, gatewaytest.Fail, gatewaytest.Break} {
				req := &docpb.InvokeRequest{CapabilityId: capability, ToolName: tool, ArgsJson: []byte(args), ConfigJson: []byte(config), SessionId: "s"}
				if capability == "people" {
					req.ArgsJson = []byte(asked)
				}
				_, err := client.Invoke(ctx, req)
				g.answered(err)
			}
		}
		_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "judged", ToolName: "echo", ArgsJson: []byte(args[:len(args)-1])})
		g.answered(err)
		g.overHTTP(t, asJSON, append(header, besides...))
	}
	select {
	case <-g.notified:
	case <-time.After(patience):
		t.Error("the webhook was not told")
	}
}

// answered takes what the gateway says of a call; what a backend says is not its own.
func (g *secretive) answered(err error) {
	if st := status.Convert(err); strings.Contains(st.Proto().String(), "capgate.dev") {
		g.told("gRPC", st.Proto().String())
	}
}

func (g *secretive) overHTTP(t *testing.T, body string, header []string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: patience}
	defer client.CloseIdleConnections()
	query := "?token=" + g.queries()
	for _, path := range []string{"/v1/capabilities/caps/invoke", "/v1/capabilities/people/invoke", "/v1/capabilities/absent/invoke", "/v1/capabilities", "/v1/approvals", "/v1/nothing"} {
		for _, body := range []string{body, body[:len(body)-1]} {
			method := http.MethodPost
			if !strings.HasSuffix(path, "invoke") {
				method = http.MethodGet
			}
			req, err := http.NewRequestWithContext(t.Context(), method, "https://"+g.public+path+query, strings.NewReader(body))
			must(t, err)
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			resp, err := client.Do(req)
			must(t, err)
			text, err := io.ReadAll(resp.Body)
			must(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK || method == http.MethodGet {
				g.told("JSON", fmt.Sprintf("%v %s", resp.Header, text))
			}
		}
	}
}

// queries is the one secret of all query strings.
func (g *secretive) queries() string {
	if g.planted["query string"] == "" {
		return g.plant("query string")
	}
	return g.planted["query string"]
}

// look reads everything that operators can.
func (g *secretive) look(t *testing.T) {
	t.Helper()
	for _, path := range []string{"", "livez", "readyz?verbose", "metrics", "v1/fleets", "v1/policies", "v1/approvals", "v1/capabilities", "v1/capabilities/caps", "v1/webhook", "v1/nothing"} {
		_, text := page(t, "http://"+g.admin+"/"+path)
		g.told("operators' pages", text)
	}
	for _, profile := range []string{"goroutine?debug=1", "goroutine?debug=2", "goroutine", "heap?debug=1", "heap", "allocs", "block", "mutex", "threadcreate?debug=1", "cmdline", "symbol", "trace?seconds=0.1", "profile?seconds=1"} {
		_, text := page(t, "http://"+g.admin+"/debug/pprof/"+profile)
		g.told("profiles", text)
	}
	for _, line := range [][]string{
		{"check", "--config", g.file}, {"status", "--admin", g.admin}, {"approvals", "--admin", g.admin, "--tenant", "acme", "list"}, {"approvals", "--admin", g.admin, "--tenant", "acme", "list", "--json"},
		{"policy", "--admin", g.admin, "--tenant", "acme", "list"}, {"catalog", "--admin", g.admin, "list"}, {"policy", "--admin", g.admin, "--tenant", "acme", "explain", "people", "echo"},
	} {
		_, stdout, stderr := runProgram(t, nil, line...)
		g.told("capgate "+line[0], stdout+stderr)
	}
	g.checkBadFiles(t)
	g.askOperators(t)
}

// checkBadFiles has capgate say what is wrong with secrets in wrong places.
func (g *secretive) checkBadFiles(t *testing.T) {
	t.Helper()
	for door, text := range map[string]string{
		"shield's user":    "shields: [{name: a, url: 'http://u:SECRET@h/'}]",
		"webhook's user":   "approvals: {webhook: {url: 'http://u:SECRET@h/', secret_file: /dev/null}}",
		"a wrong Redis":    "redis: 'redis://u:SECRET@h:port/'",
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
			t.Errorf("%s is taken: %s", door, stdout)
		}
		g.told("capgate check", stdout+stderr)
	}
}

// askOperators calls every method that reflection lists at the operators' port.
func (g *secretive) askOperators(t *testing.T) {
	t.Helper()
	conn, err := dialOperators(g.admin, "test")
	must(t, err)
	defer conn.Close()
	listed, err := askReflection(t.Context(), conn, &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	must(t, err)
	for _, l := range listed.GetListServicesResponse().GetService() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(l.GetName()))
		must(t, err)
		for i := range d.(protoreflect.ServiceDescriptor).Methods().Len() {
			if m := d.(protoreflect.ServiceDescriptor).Methods().Get(i); !m.IsStreamingClient() {
				g.askOperator(t, conn, m)
			}
		}
	}
}

func (g *secretive) askOperator(t *testing.T, conn *grpc.ClientConn, m protoreflect.MethodDescriptor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	req := dynamicpb.NewMessage(m.Input())
	for name, value := range map[protoreflect.Name]string{"tenant": "acme", "capability": "people", "tool": "echo", "last_event_id": "0"} {
		if f := m.Input().Fields().ByName(name); f != nil && f.Kind() == protoreflect.StringKind {
			req.Set(f, protoreflect.ValueOfString(value))
		}
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()))
	must(t, err)
	if stream.SendMsg(req) == nil {
		_ = stream.CloseSend()
	}
	for {
		resp := dynamicpb.NewMessage(m.Output())
		if err := stream.RecvMsg(resp); err != nil {
			g.told("operators' gRPC", compact(status.Convert(err).Proto()))
			if code := status.Code(err); code == codes.Unimplemented {
				t.Errorf("%s: %v", m.FullName(), err)
			}
			return
		}
		g.told("operators' gRPC", compact(resp))
	}
}
