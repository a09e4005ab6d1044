package gateway_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// url returns the URL of a path at a listener.
func (p *ported) url(name, path string) string {
	if l, ok := p.at[name]; ok {
		return "http://" + l.Socket.Addr().String() + path
	}
	return p.gateway.URL(path)
}

// TestDoorsOfListeners: requests of every protocol belong to their listener, over HTTP/1.1 and HTTP/2.
func TestDoorsOfListeners(t *testing.T) {
	t.Parallel()
	p := startPorted(t, false, map[string]*tenant.Listener{
		"caps": {Tenant: "acme", Capability: "caps", User: "ann", Session: "s1"},
		"live": {Tenant: "acme", Capability: "caps", Dialect: call.Live},
	})
	const connectPath = "/selu.capability.v1.Capability/Invoke"
	for _, protocol := range protocols {
		client := protocol.client(p.gateway, t)
		for name, test := range map[string]struct {
			at, path, body string
			header         []string
			status         int
			want           string
		}{
			"JSON": {"caps", "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`, nil, 200, ""},
			"another's JSON": {"caps", "/v1/capabilities/spare/invoke", `{"tool_name":"echo"}`, nil, 400,
				"ROUTING_KEY_CONFLICT"},
			"another user": {"caps", "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`,
				[]string{"X-User-Id", "bob"}, 403, "LISTENER_CONFLICT"},
			"another session": {"caps", "/v1/capabilities/caps/invoke", `{"tool_name":"echo","session_id":"s2"}`, nil,
				403, "LISTENER_CONFLICT"},
			"another's key": {"caps", "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`,
				[]string{"X-Api-Key", p.ring.credentials["globex"]}, 403, "LISTENER_CONFLICT"},
			"no key": {"caps", "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`,
				[]string{"X-Api-Key", "cg_x"}, 401, "CREDENTIAL_INVALID"},
			"Connect": {"caps", connectPath, `{"toolName":"echo"}`, []string{"Connect-Protocol-Version", "1"},
				200, ""},
			"live Connect": {"live", connectPath, `{"toolName":"echo"}`, []string{"Connect-Protocol-Version", "1"},
				200, ""},
			"JSON is doc": {"live", "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`, nil, 403,
				"LISTENER_CONFLICT"},
			"a file": {"caps", filesPath + "?filename=a.txt", "text", []string{"Content-Type", "text/plain"},
				200, ""},
			"the public port": {"", "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`, nil, 401,
				"CREDENTIAL_MISSING"},
			"Connect there": {"", connectPath, `{"toolName":"echo"}`, []string{"Connect-Protocol-Version", "1"}, 401,
				"unauthenticated"},
			"a key of its own": {"", "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`,
				[]string{"X-Api-Key", p.ring.credentials["acme"]}, 200, ""},
		} {
			header := append([]string{"Content-Type", "application/json"}, test.header...)
			if strings.HasPrefix(test.path, filesPath) {
				header = test.header
			}
			a := transfer(t, client, http.MethodPost, p.url(test.at, test.path), strings.NewReader(test.body),
				header...)
			if a.StatusCode/100 != test.status/100 || test.status >= 400 && a.StatusCode != test.status ||
				!strings.Contains(string(a.body), test.want) {
				t.Errorf("%s, %s: %s %s", protocol.name, name, a.Status, a.body)
			}
		}
	}
}

// TestBrowsersAtListeners: pages of other sites, and hosts that are not the listener's, are rejected at a
// listener without credentials, whatever pages may call the public port.
func TestBrowsersAtListeners(t *testing.T) {
	t.Parallel()
	for name, single := range map[string]bool{"with tenants": false, "without tenants": true} {
		l := &tenant.Listener{Capability: "caps"}
		if !single {
			l.Tenant = "acme"
		}
		p := startPorted(t, single, map[string]*tenant.Listener{"l": l},
			func(o *gatewaytest.Options) { o.CORS = cors.Config{Origins: []string{"https://app.example"}} })
		const path, body = "/v1/capabilities/caps/invoke", `{"tool_name":"echo"}`
		for _, protocol := range protocols {
			client := protocol.client(p.gateway, t)
			for host, want := range map[string]int{"evil.example": 421, "localhost:50051": 200, "127.0.0.1": 200} {
				if code, said := askAs(t, client, p.url("l", "/docs/errors"), host); code != want {
					t.Errorf("%s, %s, %s: %d %.200s", name, protocol.name, host, code, said)
				}
			}
			post := func(header ...string) int {
				a := transfer(t, client, http.MethodPost, p.url("l", path), strings.NewReader(body), header...)
				return a.StatusCode
			}
			if code := post("Content-Type", "application/json", "Origin", "https://evil.example"); code != 403 {
				t.Errorf("%s, %s: a page of another site: %d", name, protocol.name, code)
			}
			want := 403
			if single {
				want = 200
			}
			if code := post("Content-Type", "application/json", "Origin", "https://app.example"); code != want {
				t.Errorf("%s, %s: a page that may call the public port: %d, want %d", name, protocol.name, code, want)
			}
			if code := post("Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site"); code < 400 {
				t.Errorf("%s, %s: a form of another site: %d", name, protocol.name, code)
			}
			a := transfer(t, client, http.MethodOptions, p.url("l", path), nil, "Origin", "https://app.example",
				"Access-Control-Request-Method", "POST")
			if got := a.Header.Get("Access-Control-Allow-Origin"); (got != "") != single {
				t.Errorf("%s, %s: preflight: %s, %q", name, protocol.name, a.Status, got)
			}
		}
	}
}

// TestScopesOfListeners: callers have the listener's scopes; a credential is limited to those that it has too.
func TestScopesOfListeners(t *testing.T) {
	t.Parallel()
	p := startPorted(t, false, map[string]*tenant.Listener{
		"read":    {Tenant: "acme", Capability: "caps", Scopes: tenant.Read, Limited: true},
		"default": {Tenant: "acme", Capability: "caps"},
		"keyed":   {Capability: "caps", User: "ann"}, // callers need a credential
		"asserts": {Tenant: "acme", Capability: "caps", Asserts: tenant.User},
	})
	key := func(name string) []string { return []string{"x-api-key", p.ring.credentials[name]} }
	for name, test := range map[string]struct {
		at   string
		meta []string
		want string
	}{
		"no scope":                   {"read", nil, "SCOPE_MISSING"},
		"a key cannot do more":       {"read", key("acme"), "SCOPE_MISSING"},
		"default":                    {"default", nil, ""},
		"a key's own":                {"default", key("reader"), "SCOPE_MISSING"},
		"without a credential":       {"keyed", nil, "CREDENTIAL_MISSING"},
		"with one":                   {"keyed", key("acme"), ""},
		"with one of another tenant": {"keyed", key("globex"), ""},
		"on behalf of its user":      {"keyed", append(key("orchestrator"), "x-user-id", "ann"), ""},
		"on behalf of another":       {"keyed", append(key("acme"), "x-user-id", "bob"), "LISTENER_CONFLICT user"},
		"another capability": {"keyed", append(key("acme"), "x-capability-id", "spare"),
			"ROUTING_KEY_CONFLICT"},
		"a user that callers assert":  {"asserts", []string{"x-user-id", "carl"}, ""},
		"a user that nobody may give": {"default", []string{"x-user-id", "dora"}, ""},
	} {
		if got := p.invoke(t, p.conn(t, test.at), nil, test.meta...); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	p.gateway.Stop(t)
	lines := p.gateway.Log.String()
	if !strings.Contains(lines, `"user":"carl"`) || strings.Contains(lines, `"user":"dora"`) ||
		!strings.Contains(lines, `"listener":"keyed","tenant":"globex"`) {
		t.Errorf("got %s", lines)
	}
}

// TestListsOfListeners: lists at a listener have only the listener's capability.
func TestListsOfListeners(t *testing.T) {
	t.Parallel()
	known := catalog.New(catalog.Options{})
	of := map[string]catalog.Declaration{}
	for _, id := range []string{"caps", "spare", hidden} {
		of[id] = catalog.Declaration{Policy: call.Allow, Manifest: &manifest.Manifest{ID: id,
			Tools: []manifest.Tool{tool(t, "echo")}}}
	}
	known.Replace(of)
	options := policy.Options{Source: known}
	decider, err := policy.New(options)
	check.Must(t, err)
	for _, single := range []bool{false, true} {
		all := map[string]*tenant.Listener{"caps": {Capability: "caps"}, "any": {}, "nothing": {Capability: hidden}}
		wanted := map[string][]string{"caps": {"caps"}, "any": {"caps", hidden, "spare"}, "nothing": {hidden}}
		if !single {
			for _, l := range all {
				l.Tenant = "acme"
			}
			wanted["any"], wanted["nothing"] = []string{"caps", "spare"}, nil
		}
		p := startPorted(t, single, all, func(o *gatewaytest.Options) {
			o.Policy = options
			o.Services = func(g grpc.ServiceRegistrar) {
				capgatepb.RegisterCatalogServer(g, listing.New(known, decider))
			}
		})
		for name, want := range wanted {
			list := capgatepb.NewCatalogClient(p.conn(t, name))
			resp, err := list.ListCapabilities(t.Context(), &capgatepb.ListCapabilitiesRequest{})
			var got []string
			for _, c := range resp.GetCapabilities() {
				got = append(got, c.GetId())
			}
			if slices.Sort(got); err != nil || !slices.Equal(got, want) {
				t.Errorf("single %t, %s: %q, %v; want %q", single, name, got, err, want)
			}
			for _, id := range []string{"caps", "spare", hidden} {
				_, err := list.ListTools(t.Context(), &capgatepb.ListToolsRequest{CapabilityId: id})
				if sees := slices.Contains(want, id); sees != (err == nil) ||
					!sees && errorInfo(err).GetReason() != "CAPABILITY_UNKNOWN" {
					t.Errorf("single %t, %s: tools of %s: %v", single, name, id, err)
				}
			}
		}
		if single {
			continue
		}
		if got := p.invoke(t, p.conn(t, "nothing"), nil); got != "CAPABILITY_UNKNOWN" {
			t.Errorf("a capability that its tenant is not granted: %q", got)
		}
		if got := p.invoke(t, p.conn(t, "any"), nil, "x-capability-id", hidden); got != "CAPABILITY_UNKNOWN" {
			t.Errorf("a capability that the caller names: %q", got)
		}
	}
}

// TestTLSOfListeners: a listener has its own certificate and authorities; mapped certificates must agree with
// it.
func TestTLSOfListeners(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	server := &tls.Config{Certificates: []tls.Certificate{authority.Server(t)}, ClientCAs: authority.Pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
	of := &tenant.Listener{Name: "secure", Tenant: "acme", Capability: "caps", Scopes: tenant.ListenerScopes}
	var ln net.Listener
	p := startPorted(t, false, nil, func(o *gatewaytest.Options) {
		ln = socket(t, "secure")
		o.Listeners = []gateway.Listener{{Of: of, Socket: ln, TLS: server}}
		rules := tenant.NewCertificates(everyTenant{}, nil)
		rules.Replace([]tenant.Certificate{
			{SPIFFE: "spiffe://example.org/acme", Tenant: "acme", Scopes: tenant.Invoke},
			{SPIFFE: "spiffe://example.org/globex", Tenant: "globex", Scopes: tenant.Invoke},
		})
		authenticators := o.Authenticator.(*tenant.Authenticators)
		authenticators.Certificates = rules
	})
	connect := func(certs ...tls.Certificate) *grpc.ClientConn {
		return p.gateway.Conn(t, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			RootCAs: authority.Pool, Certificates: certs})), grpc.WithContextDialer(dialer(ln.Addr())))
	}
	for name, want := range map[string]string{"spiffe://example.org/acme": "", "spiffe://example.org/nobody": "",
		"spiffe://example.org/globex": "LISTENER_CONFLICT tenant"} {
		if got := p.invoke(t, connect(authority.Client(t, nil, name)), nil); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	_, err := gatewaytest.NewClient(connect(), call.Live).Invoke(t.Context(), bare())
	if err == nil || errorInfo(err) != nil {
		t.Errorf("without a certificate: %v", err)
	}
	if got := p.invoke(t, p.conn(t, ""), nil); got != "CREDENTIAL_MISSING" {
		t.Errorf("the public port, in cleartext: %q", got)
	}
}
