package gateway_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// ported is a gateway with listeners. The tenant acme is granted caps and spare, globex everything.
type ported struct {
	gateway    *gatewaytest.Gateway
	capability *gatewaytest.Capability // caps
	ring       *keyring
	at         map[string]gateway.Listener
}

// startPorted starts a gateway with a listener of each name, and with tenants unless single is set.
func startPorted(t *testing.T, single bool, of map[string]*tenant.Listener,
	change ...func(*gatewaytest.Options)) *ported {
	t.Helper()
	p := &ported{capability: gatewaytest.NewCapability("b1"), ring: newKeyring(), at: map[string]gateway.Listener{}}
	keys := tenant.NewKeys(nil)
	all := settings(t, map[string][]string{"acme": {"caps", "spare"}, "globex": {"*"}})
	keys.Replace(p.ring.keys, all, nil)
	addr, spare := p.capability.Serve(t, call.Live).Addr, gatewaytest.NewCapability("b2").Serve(t, call.Doc).Addr
	o := gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{
			{Capability: "caps", Backends: []string{addr}, Affinity: sticky},
			{Capability: "spare", Backends: []string{spare}},
			{Capability: hidden, Services: []string{"p." + hidden}, Backends: []string{spare}},
		},
		Domains: []string{"caps.example.com"},
	}
	if !single {
		o.Authenticator = tenant.NewAuthenticators(tenant.Sources{File: keys,
			Listeners: tenant.NewListeners(&tenantsOf{all: all})})
	}
	for name, l := range of {
		if l.Name = name; l.Scopes == 0 {
			l.Scopes = tenant.ListenerScopes
		}
		p.at[name] = gateway.Listener{Of: l, Socket: socket(t, name)}
		o.Listeners = append(o.Listeners, p.at[name])
	}
	for _, f := range change {
		f(&o)
	}
	p.gateway = gatewaytest.Start(t, o)
	return p
}

// socket returns a unix socket for a name with unix in it, and a loopback port for others.
func socket(t *testing.T, name string) net.Listener {
	t.Helper()
	network, address := "tcp", "127.0.0.1:0"
	if strings.Contains(name, "unix") {
		network, address = "unix", filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	check.Must(t, err)
	return ln
}

// target returns the address of a listener, for grpc-go; "" is the public port.
func (p *ported) target(name string) string {
	l, ok := p.at[name]
	switch {
	case !ok:
		return "passthrough:///" + p.gateway.Addr
	case l.Socket.Addr().Network() == "unix":
		return "unix:" + l.Socket.Addr().String()
	}
	return "passthrough:///" + l.Socket.Addr().String()
}

// conn returns a bare connection, as an orchestrator creates it.
func (p *ported) conn(t *testing.T, name string) *grpc.ClientConn {
	t.Helper()
	conn, err := clienttest.NewConn(p.target(name), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.Must(t, err)
	check.Cleanup(t, func() { _ = conn.Close() })
	return conn
}

// bare returns a request that names only its tool.
func bare() *docpb.InvokeRequest {
	return &docpb.InvokeRequest{ToolName: gatewaytest.Echo, ArgsJson: []byte(`{}`)}
}

// allFive makes each RPC of a dialect without metadata, and returns the reason of each failure.
func allFive(t *testing.T, conn *grpc.ClientConn, d call.Dialect) map[string]string {
	t.Helper()
	client, reasons := gatewaytest.NewClient(conn, d), map[string]string{}
	note := func(method string, err error) {
		if err != nil {
			reasons[method] = errorInfo(err).GetReason()
		}
	}
	_, err := client.Invoke(t.Context(), bare())
	note("Invoke", err)
	_, err = client.StreamInvoke(t.Context(), bare())
	note("StreamInvoke", err)
	ready, _, err := client.Healthcheck(t.Context())
	if note("Healthcheck", err); err == nil && !ready {
		t.Error("the capability is not ready")
	}
	f := gatewaytest.File{Name: "a.txt", MIME: "text/plain", Data: []byte("text")}
	up, err := client.Upload(t.Context(), f)
	note("Upload", err)
	down, err := client.Download(t.Context(), up.ID)
	if note("Download", err); err == nil && string(down.Data) != "text" {
		t.Errorf("downloaded %q", down.Data)
	}
	return reasons
}

// TestBareCallers: at a listener, callers that name nothing have the listener's tenant and capability. The
// public port still requires both.
func TestBareCallers(t *testing.T) {
	t.Parallel()
	p := startPorted(t, false, map[string]*tenant.Listener{
		"tcp":  {Tenant: "acme", Capability: "caps", User: "ann", Agent: "planner", Session: "s1"},
		"unix": {Tenant: "acme", Capability: "caps", Dialect: call.Live},
	})
	for _, name := range []string{"tcp", "unix"} {
		if reasons := allFive(t, p.conn(t, name), call.Live); len(reasons) > 0 {
			t.Errorf("%s: %v", name, reasons)
		}
	}
	for method, reason := range allFive(t, p.conn(t, ""), call.Live) {
		if reason != "CREDENTIAL_MISSING" {
			t.Errorf("%s at the public port: %q", method, reason)
		}
	}
	p.gateway.Stop(t)
	lines := p.gateway.Log.String()
	for _, part := range []string{`"listener":"tcp","tenant":"acme","user":"ann","agent":"planner"`,
		`"listener":"unix","tenant":"acme"`} {
		if n := strings.Count(lines, part); n != 5 {
			t.Errorf("%d lines with %s, want 5", n, part)
		}
	}
	for _, seen := range p.capability.Seen() {
		if got := seen.Metadata.Get("x-session-id"); len(got) > 1 || len(got) == 1 && got[0] != "s1" {
			t.Errorf("%s: sessions %q", seen.Path, got)
		}
	}
}

// invoke makes a call of the live dialect and returns the reason of its failure.
func (p *ported) invoke(t *testing.T, conn *grpc.ClientConn, change func(*docpb.InvokeRequest), meta ...string) string {
	t.Helper()
	req := bare()
	if change != nil {
		change(req)
	}
	_, err := gatewaytest.NewClient(conn, call.Live).Invoke(metadata.AppendToOutgoingContext(t.Context(), meta...), req)
	if info := errorInfo(err); info.GetReason() == "LISTENER_CONFLICT" {
		return info.GetReason() + " " + info.GetMetadata()["field"]
	} else if err != nil {
		return info.GetReason()
	}
	return ""
}

// TestConflicts: what a call names must agree with its listener.
func TestConflicts(t *testing.T) {
	t.Parallel()
	p := startPorted(t, false, map[string]*tenant.Listener{
		"all": {Tenant: "acme", Capability: "caps", User: "ann", Agent: "planner", Session: "s1", Dialect: call.Live},
	})
	conn := p.conn(t, "all")
	capability := func(id string) func(*docpb.InvokeRequest) {
		return func(r *docpb.InvokeRequest) { r.CapabilityId = id }
	}
	session := func(id string) func(*docpb.InvokeRequest) {
		return func(r *docpb.InvokeRequest) { r.SessionId = id }
	}
	key := func(name string) []string { return []string{"x-api-key", p.ring.credentials[name]} }
	for name, test := range map[string]struct {
		change func(*docpb.InvokeRequest)
		meta   []string
		want   string
	}{
		"nothing":                 {nil, nil, ""},
		"the same capability":     {capability("caps"), []string{"x-capability-id", "caps"}, ""},
		"another in metadata":     {nil, []string{"x-capability-id", "spare"}, "ROUTING_KEY_CONFLICT"},
		"another in the message":  {capability("spare"), nil, "ROUTING_KEY_CONFLICT"},
		"one that is not granted": {capability(hidden), nil, "ROUTING_KEY_CONFLICT"},
		"one that does not exist": {capability("nowhere"), nil, "ROUTING_KEY_CONFLICT"},
		"the same names": {session("s1"), []string{"x-user-id", "ann", "x-agent-id", "planner",
			"x-tenant-id", "acme"}, ""},
		"another user":   {nil, []string{"x-user-id", "bob"}, "LISTENER_CONFLICT user"},
		"two users":      {nil, []string{"x-user-id", "ann", "x-user-id", "bob"}, "IDENTITY_CONFLICT"},
		"another agent":  {nil, []string{"x-agent-id", "x"}, "LISTENER_CONFLICT agent"},
		"another tenant": {nil, []string{"x-tenant-id", "globex"}, "LISTENER_CONFLICT tenant"},
		"two tenants": {nil, []string{"x-tenant-id", "acme", "x-tenant-id", "globex"},
			"LISTENER_CONFLICT tenant"},
		"another session":           {session("s2"), nil, "LISTENER_CONFLICT session"},
		"another, in metadata":      {nil, []string{"x-session-id", "s2"}, "LISTENER_CONFLICT session"},
		"a key of the tenant":       {nil, key("acme"), ""},
		"a key that asserts":        {nil, append(key("orchestrator"), "x-user-id", "ann"), ""},
		"a key that asserts others": {nil, append(key("orchestrator"), "x-user-id", "bob"), "LISTENER_CONFLICT user"},
		"a key of another tenant":   {nil, key("globex"), "LISTENER_CONFLICT tenant"},
		"a key that cannot call":    {nil, key("reader"), "SCOPE_MISSING"},
		"an expired key":            {nil, key("expired"), "CREDENTIAL_EXPIRED"},
		"no key":                    {nil, []string{"x-api-key", "cg_nonsense"}, "CREDENTIAL_INVALID"},
		"an empty key":              {nil, []string{"x-api-key", ""}, "CREDENTIAL_INVALID"},
		"another scheme":            {nil, []string{"authorization", "Basic YQ=="}, "CREDENTIAL_INVALID"},
		"two keys":                  {nil, append(key("acme"), "authorization", "Bearer x"), "CREDENTIAL_INVALID"},
	} {
		if got := p.invoke(t, conn, test.change, test.meta...); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	for _, reason := range allFive(t, conn, call.Doc) {
		if reason != "LISTENER_CONFLICT" {
			t.Errorf("the doc dialect: %q", reason)
		}
	}
	for _, seen := range p.capability.Seen() {
		if len(seen.Metadata.Get("authorization"))+len(seen.Metadata.Get("x-api-key")) > 0 {
			t.Errorf("the backend got a credential: %v", seen.Metadata)
		}
	}
}

// dialer dials a fixed address, whatever the requested one.
func dialer(to net.Addr) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, to.Network(), to.String())
	}
}
