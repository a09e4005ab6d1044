package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/gateway"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
	"github.com/capgate/capgate/router"
)

// TestSessionsOfListeners: calls at a listener reach the backend of its session, and no other.
func TestSessionsOfListeners(t *testing.T) {
	t.Parallel()
	for name, affinity := range map[string]router.Affinity{"with affinity": sticky, "without": {}} {
		r := newRoom(t, 3, call.Doc)
		p := startPorted(t, false, map[string]*tenant.Listener{
			"mine":  {Tenant: "acme", Capability: "caps", Session: "mine"},
			"yours": {Tenant: "acme", Capability: "caps", Session: "yours"},
			"other": {Tenant: "globex", Capability: "caps", Session: "mine"}, // with the same id
		}, func(o *gatewaytest.Options) {
			o.Fleets = []gatewaytest.Fleet{r.fleet(call.Doc)}
			f := &o.Fleets[0]
			f.Capability, f.Tenant, f.Affinity = "caps", "acme", affinity
			f.Reserved = map[string]string{r.addrs[0]: "mine", r.addrs[1]: "yours"}
		})
		for at, want := range map[string]string{"mine": "b0", "yours": "b1", "other": "b2"} {
			client := gatewaytest.NewClient(p.conn(t, at), call.Doc)
			for range 10 {
				if served, err := inSession(t.Context(), client, ""); err != nil || served != want {
					t.Fatalf("%s: %s was served by %q, %v; want %s", name, at, served, err, want)
				}
			}
		}
	}
}

// TestUsersOfLegacyMessages: a message of the legacy dialect may name the user, if it agrees with its listener.
// The message is read for that even where nothing else in it matters.
func TestUsersOfLegacyMessages(t *testing.T) {
	t.Parallel()
	for _, single := range []bool{false, true} {
		own := map[string]*tenant.Listener{"ann": {Tenant: "acme", Capability: "caps", User: "ann"},
			"some": {Tenant: "acme", Capability: "caps", Asserts: tenant.User}}
		if single {
			own["ann"].Tenant, own["some"].Tenant = "", ""
		}
		p := startPorted(t, single, own, func(o *gatewaytest.Options) { o.Fleets[0].Affinity = router.Affinity{} })
		for _, test := range []struct{ at, encoding, user, want string }{
			{"ann", "identity", "", ""}, {"ann", "identity", "ann", ""},
			{"ann", "identity", "bob", "LISTENER_CONFLICT"},
			{"ann", "gzip", "ann", ""}, {"ann", "gzip", "bob", "LISTENER_CONFLICT"}, {"some", "gzip", "bob", ""},
		} {
			_, err := legacypb.NewCapabilityServiceClient(p.conn(t, test.at)).Invoke(t.Context(),
				&legacypb.InvokeRequest{ToolName: gatewaytest.Echo, Parameters: "{}",
					Context: map[string]string{"user_id": test.user}}, grpc.UseCompressor(test.encoding))
			if reason := errorInfo(err).GetReason(); reason != test.want || err != nil && test.want == "" {
				t.Errorf("single %t, %+v: %v", single, test, err)
			}
		}
	}
}

// TestEnginesAtListeners: clients and agents of an engine need only the listener's address.
func TestEnginesAtListeners(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	ring.issue("chat", "acme", tenant.EngineChat, nil)
	keys := tenant.NewKeys(nil)
	all := settings(t, map[string][]string{"acme": {"*"}, "globex": {"*"}})
	keys.Replace(ring.keys, all, nil)
	open, sealed := socket(t, "open"), socket(t, "unix")
	e := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{}, func(o *gatewaytest.Options) {
		o.Fleets[0].Services = nil // only the listener names the fleet
		o.Authenticator = tenant.NewAuthenticators(tenant.Sources{File: keys,
			Listeners: tenant.NewListeners(&tenantsOf{all: all})})
		o.Listeners = []gateway.Listener{
			{Of: &tenant.Listener{Name: "open", Tenant: "acme", Capability: "engine-1", Scopes: tenant.ListenerScopes},
				Socket: open},
			{Of: &tenant.Listener{Name: "chats", Tenant: "acme", Capability: "engine-1", Scopes: tenant.EngineChat,
				Limited: true}, Socket: sealed},
		}
	})
	conn := direct(t, open.Addr().String())
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	go func() { e.agent <- agent.Run(ctx, conn, agent.Config{Ready: func() { close(ready) }}) }()
	check.Cleanup(t, func() {
		stop()
		t.Log("agent: ", check.Received(t, e.agent, "the agent to stop")) // stopped
	})
	check.Received(t, ready, "the agent to be connected")

	e.client = parallaxpb.NewClientServiceClient(conn)
	if got, err := e.say(patient(t), "s", "hello"); err != nil || got != "You said: hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := e.client.Shutdown(t.Context(),
		&parallaxpb.ShutdownRequest{}); errorInfo(err).GetReason() != "SCOPE_MISSING" {
		t.Errorf("an end of the engine: %v", err)
	}
	e.client = parallaxpb.NewClientServiceClient(e.gateway.Conn(t,
		grpc.WithContextDialer(dialer(sealed.Addr()))))
	if got, err := e.say(patient(t), "s", "again"); err != nil || got != "You said: again" {
		t.Errorf("got %q, %v", got, err)
	}
	stream, err := parallaxpb.NewAgentServiceClient(e.gateway.Conn(t, grpc.WithContextDialer(dialer(sealed.Addr())))).
		RunSession(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if errorInfo(err).GetReason() != "SCOPE_MISSING" {
		t.Errorf("an agent without the scope: %v", err)
	}
}

// TestSignedURLsAtListeners: a URL for a listener's tenant, capability and session is valid at the listener,
// and no other is.
func TestSignedURLsAtListeners(t *testing.T) {
	t.Parallel()
	sockets := map[string]*tenant.Listener{
		"caps": {Tenant: "acme", Capability: "caps", Session: "s1"}, "other": {Tenant: "acme", Capability: "other"},
		"globex": {Tenant: "globex", Capability: "caps"}, "s2": {Tenant: "acme", Capability: "caps", Session: "s2"},
	}
	at := map[string]string{}
	f := startSigned(t, func(o *gatewaytest.Options) {
		for name, l := range sockets {
			ln := socket(t, name)
			l.Name, l.Scopes, at[name] = name, tenant.ListenerScopes, "http://"+ln.Addr().String()
			o.Listeners = append(o.Listeners, gateway.Listener{Of: l, Socket: ln})
		}
	})
	client := f.gateway.HTTP1(t)
	up := transfer(t, client, http.MethodPost, at["caps"]+filesPath+"?filename=a.txt",
		strings.NewReader("acme's")).uploaded(t)
	sign := func(name, body string) (int, string) {
		a := transfer(t, client, http.MethodPost, at[name]+up.Path+"/signed-url", strings.NewReader(body))
		return a.StatusCode, urlOf(a)
	}
	status, url := sign("caps", `{"ttl":"10m"}`)
	if status != http.StatusOK {
		t.Fatal(status)
	}
	for name, body := range map[string]string{"caps": `{"session_id":"s2"}`, "other": `{}`, "globex": `{}`} {
		if status, _ := sign(name, body); status < 400 {
			t.Errorf("signed at %s: %d", name, status)
		}
	}
	for name, want := range map[string]int{"caps": 200, "other": 400, "globex": 403, "s2": 403} {
		if a := transfer(t, client, http.MethodGet, at[name]+url, nil); a.StatusCode != want ||
			want == 200 && string(a.body) != "acme's" {
			t.Errorf("at %s: %s %s", name, a.Status, a.body)
		}
	}
	if a := transfer(t, client, http.MethodGet, f.gateway.URL(url), nil); a.StatusCode != 200 {
		t.Errorf("at the public port: %s %s", a.Status, a.body)
	}
}

// TestServicesAtListeners: other services, authorities and the gateway's own services at a listener.
func TestServicesAtListeners(t *testing.T) {
	t.Parallel()
	p := startPorted(t, false, map[string]*tenant.Listener{
		"caps":   {Tenant: "globex", Capability: "caps"},
		"hidden": {Tenant: "globex", Capability: hidden},
		"any":    {Tenant: "globex"},
		"acme":   {Tenant: "acme"},
		"live":   {Tenant: "globex", Capability: hidden, Dialect: call.Live},
	})
	for at, want := range map[string]string{"caps": "METHOD_UNKNOWN", "hidden": "", "any": "",
		"live": "LISTENER_CONFLICT"} {
		err := p.conn(t, at).Invoke(t.Context(), "/p."+hidden+"/Nothing", bare(), bare())
		if reason := errorInfo(err).GetReason(); reason != want {
			t.Errorf("a service of %s at %s: %v, want %q", hidden, at, err, want)
		}
		if _, err = healthpb.NewHealthClient(p.conn(t, at)).Check(t.Context(),
			&healthpb.HealthCheckRequest{}); err != nil {
			t.Errorf("grpc.health.v1 at %s: %v", at, err)
		}
	}
	if err := p.conn(t, "acme").Invoke(t.Context(), "/p."+hidden+"/Nothing", bare(), bare()); errorInfo(err) == nil {
		t.Errorf("a service that acme is not granted: %v", err)
	}
	for authority, want := range map[string]string{"caps.caps.example.com": "", "CAPS.caps.example.com": "",
		"spare.caps.example.com": "ROUTING_KEY_CONFLICT", "spare.example.com": "", "localhost": ""} {
		conn := p.gateway.Conn(t, grpc.WithContextDialer(dialer(p.at["caps"].Socket.Addr())),
			grpc.WithAuthority(authority))
		if got := p.invoke(t, conn, nil); got != want {
			t.Errorf("%s: %q, want %q", authority, got, want)
		}
	}
}
