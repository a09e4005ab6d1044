package deploy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	"github.com/capgate/capgate/internal/testkit/kubetest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// gateways is a pair of real gateways with one Redis, and tenants that call them. Their configuration enables
// everything that has metrics.
type gateways struct {
	public, admin []string // addresses
	keys          []string // of the tenants, and a token
	clients       []client
}

// client is a client of one gateway.
type client struct {
	docpb.CapabilityClient
	engines openparallaxv1.ClientServiceClient
}

const gatewaysConfig = `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: '$redis', timeout: 5s}
replicas: {heartbeat: 500ms}
policies: {shadow: true}
cache: {ttl: 1s}
approvals: {notices: [{name: webhook, url: '$webhook', secret_file: '$dir/secret'}]}
shields: [{name: main, address: '$shield', timeout: 5s}]
registration: {allow: [127.0.0.0/8], capabilities: ["gen-*"], policy: allow}
kubernetes: {api: {address: '$api', ca_file: '$api_ca', token_file: '$api_token'}}
identity: {store: redis}
issuers: [{name: corp, issuer: '$issuer', audiences: [capgate], ca_file: '$issuer_ca'}]
limits: {calls_per_second: 5, concurrent: 1000, per_day: 1000000, shadow: true}
audit: {to: stdout}
traces: {endpoint: '$collector', sample: 1}
tenants:
$tenants
fleets:
  - {capability: caps, policy: allow, max_concurrent: 100, affinity: session, backends: ['$one', '$two']}
  - {capability: people, policy: ask, backends: ['$one']}
  - {capability: shielded, policy: allow, shield: main, backends: ['$one']}
  - {capability: asked, manifest: '$dir/asked.yaml', discovery: {interval: 1s}, policy: allow, backends: ['$two']}
  - {capability: gone, policy: allow, backends: ['$gone']}
  - {capability: pods, policy: allow, kubernetes: {namespace: tools, service: pods}}
  - {capability: engine, protocol: openparallax, services: [openparallax.v1.ClientService], backends: ['$engine']}
`

// startGateways starts the gateways.
func startGateways(t *testing.T) *gateways {
	t.Helper()
	g := &gateways{}
	dir := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(strings.Repeat("a secret of the tests ", 3)),
		0o600))
	check.Must(t, os.WriteFile(filepath.Join(dir, "asked.yaml"), []byte("id: asked\nimage: x\ntool_source: dynamic\n"),
		0o600))
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusGone)
	}))
	t.Cleanup(refuses.Close)
	one, two := gatewaytest.NewCapability("one"), gatewaytest.NewCapability("two")
	two.Lists = func() ([]byte, string, error) {
		const tools = `[{"name": "echo", "description": "repeats", "input_schema": {}, "recommended_policy": "allow"}]`
		return []byte(tools), "", nil
	}
	issuer := issuertest.Start(t)
	shield, _ := serveShield(t)
	api := kubetest.Start(t)
	config := map[string]string{
		"api": api.URL, "api_ca": api.CAFile, "api_token": api.TokenFile,
		"dir": dir, "redis": redistest.Start(t).URL(), "webhook": refuses.URL, "shield": shield,
		"tenants": g.tenants(t, "acme", "globex"),
		"issuer":  issuer.URL, "issuer_ca": issuer.CAFile, "collector": oteltest.Start(t).Addr,
		"engine": gatewaytest.Serve(t, engine.New(engine.Config{}).Register).Addr,
		"one":    one.Serve(t, call.Doc).Addr, "two": two.Serve(t, call.Live).Addr, "gone": gatewaytest.Unreachable(t),
	}
	pod, err := netip.ParseAddrPort(config["one"])
	check.Must(t, err)
	api.Put(kubetest.EndpointSlices, "tools", "pods", kubetest.Slice("pods", int(pod.Port()),
		kubetest.Endpoint{Addr: pod.Addr().String()}))
	g.keys = append(g.keys, issuer.Token(t, nil))
	file := filepath.Join(dir, "capgate.yaml")
	check.Must(t, os.WriteFile(file,
		[]byte(os.Expand(gatewaysConfig, func(name string) string { return config[name] })),
		0o600))
	for range 2 {
		log := start(t, capgate, "serve", "--config", file).wait(t, `"msg":"serving"`)
		g.public, g.admin = append(g.public, attribute(log, "listen")), append(g.admin, attribute(log, "admin"))
	}
	for _, addr := range g.public {
		conn, err := clienttest.NewConn("passthrough:///"+addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		check.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		g.clients = append(g.clients, client{docpb.NewCapabilityClient(conn),
			openparallaxv1.NewClientServiceClient(conn)})
	}
	command(t, capgate, "policy", "set", "caps", gatewaytest.Echo, "ask", "--candidate", "--tenant", "acme",
		"--admin", g.admin[0])
	return g
}

// tenants creates tenants with a key each, and returns their part of the configuration.
func (g *gateways) tenants(t *testing.T, ids ...string) string {
	t.Helper()
	var text strings.Builder
	for _, id := range ids {
		key, entry := command(t, capgate, "keys", "new")
		_, entry, _ = strings.Cut(entry, "\n- ")
		g.keys = append(g.keys, strings.TrimSpace(key))
		fmt.Fprintf(&text, "  - {id: %s, capabilities: ['*'], keys: [%s, scopes: [invoke, read, engine.chat]}]}\n",
			id, strings.TrimSuffix(strings.TrimSpace(entry), "}"))
	}
	return text.String()
}

// attribute returns a value in a log of JSON lines.
func attribute(text, key string) string {
	_, rest, _ := strings.Cut(text, `"`+key+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// allowingShield allows everything. Its verdicts are not cached.
type allowingShield struct {
	openparallaxv1.UnimplementedShieldServiceServer
}

func (allowingShield) Evaluate(context.Context, *openparallaxv1.EvaluateRequest) (*openparallaxv1.EvaluateResponse,
	error) {
	return &openparallaxv1.EvaluateResponse{Verdict: &openparallaxv1.Verdict{
		Decision: openparallaxv1.VerdictDecision_ALLOW,
	}}, nil
}

// serveShield serves an allowingShield until the test ends, or until stop.
func serveShield(t *testing.T) (addr string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	g := grpc.NewServer()
	openparallaxv1.RegisterShieldServiceServer(g, allowingShield{})
	go func() { _ = g.Serve(ln) }()
	t.Cleanup(g.Stop)
	return ln.Addr().String(), g.Stop
}

// load makes calls until the test ends, at every gateway and as every tenant: successful ones, and all kinds of
// failures.
func (g *gateways) load(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); check.Ended(t, &running, "the background work to end") })
	running.Go(func() {
		pace := time.NewTicker(200 * time.Millisecond)
		defer pace.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			g.answer(ctx, n)
			<-pace.C
		}
	})
	for _, client := range g.clients {
		for _, key := range g.keys {
			running.Go(func() {
				pace := time.NewTicker(20 * time.Millisecond)
				defer pace.Stop()
				for ; ctx.Err() == nil; <-pace.C {
					g.calls(ctx, client, key)
				}
			})
		}
	}
}

// answer makes a call that waits for an approval, and denies it. The n-th call has unique arguments. Calls with other
// arguments keep waiting.
func (g *gateways) answer(ctx context.Context, n int) {
	_, _ = g.clients[0].Invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.keys[0]),
		&docpb.InvokeRequest{CapabilityId: "people", ToolName: gatewaytest.Break,
			ArgsJson: fmt.Appendf(nil, `{"n":%d}`, n)})
	conn, err := clienttest.NewConn("passthrough:///"+g.admin[0],
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	approvals := capgatepb.NewApprovalsClient(conn)
	list, _ := approvals.ListApprovals(ctx, &capgatepb.ListApprovalsRequest{State: "pending", Capability: "people",
		Tool: gatewaytest.Break})
	for _, a := range list.GetApprovals() {
		_, _ = approvals.Deny(ctx, &capgatepb.DenyRequest{Tenant: a.GetTenant(), ApprovalId: a.GetId()})
	}
}

// calls makes one call of each kind. Their results are ignored: the metrics show them.
func (g *gateways) calls(ctx context.Context, client client, key string) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	invoke := func(ctx context.Context, capability, tool, session string) {
		_, _ = client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: capability, ToolName: tool, SessionId: session,
			ArgsJson: []byte("{}")})
	}
	for _, capability := range []string{"caps", "people", "shielded", "asked", "gone", "nobody"} {
		invoke(ctx, capability, gatewaytest.Echo, "")
	}
	for _, tool := range []string{gatewaytest.Fail, gatewaytest.Break, "no such tool"} {
		invoke(ctx, "caps", tool, "a session")
	}
	invoke(metadata.NewOutgoingContext(ctx, nil), "caps", gatewaytest.Echo, "") // without a key
	brief, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	invoke(brief, "caps", gatewaytest.Block, "")
	for _, tool := range []string{gatewaytest.Echo, gatewaytest.Cut} {
		stream, err := client.StreamInvoke(ctx,
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: tool, ArgsJson: []byte("{}")})
		for err == nil {
			_, err = stream.Recv()
		}
	}
	said, err := client.engines.SendMessage(ctx,
		&openparallaxv1.ClientMessageRequest{Content: "hello", Mode: openparallaxv1.SessionMode_OTR})
	for err == nil {
		_, err = said.Recv()
	}
}

// ready waits until a call succeeds.
func (g *gateways) ready(t *testing.T) {
	t.Helper()
	for _, client := range g.clients {
		check.Succeeds(t, "a call", func() error {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.keys[0])
			_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo,
				ArgsJson: []byte("{}")})
			if status.Code(err) != codes.OK {
				return err
			}
			return nil
		})

	}
}
