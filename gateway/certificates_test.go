package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// everyTenant is a directory in which every tenant exists.
type everyTenant struct{}

func (everyTenant) Lookup(id string) (*tenant.Settings, bool) {
	all, _ := tenant.ParseGrants([]string{"*"})
	return &tenant.Settings{ID: id, Capabilities: all}, true
}

func (e everyTenant) Settings(_ context.Context, id string) (*tenant.Settings, *call.Refusal) {
	s, _ := e.Lookup(id)
	return s, nil
}

// secured is a TLS front whose callers authenticate with certificates or keys.
type secured struct {
	*front
	authority    *certtest.Authority
	certificates *tenant.Certificates
	ring         *keyring
}

func secure(t *testing.T) *secured {
	t.Helper()
	return securedBy(t, certtest.New(t), func(*tls.Config) {})
}

// securedBy returns a front with the certificates of an authority, and a change of its TLS.
func securedBy(t *testing.T, authority *certtest.Authority, change func(*tls.Config)) *secured {
	t.Helper()
	s := &secured{front: &front{capability: gatewaytest.NewCapability("b1")}, authority: authority, ring: newKeyring()}
	keys := s.ring.authenticator().(*tenant.Keys)
	s.certificates = tenant.NewCertificates(everyTenant{}, nil)
	s.certificates.Replace([]tenant.Certificate{
		{SPIFFE: "spiffe://example.org/ns/*/sa/orch", Tenant: "acme", Scopes: tenant.Invoke | tenant.Read,
			Asserts: tenant.User},
		{DNS: "*.agents.example.org", Tenant: "globex", Scopes: tenant.Invoke},
	})
	s.backend = s.capability.Serve(t, call.Doc)
	port := &tls.Config{
		Certificates: []tls.Certificate{s.authority.Server(t)}, ClientCAs: s.authority.Pool,
		ClientAuth: tls.VerifyClientCertIfGiven,
	}
	change(port)
	s.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets:        []gatewaytest.Fleet{{Capability: "caps", Backends: []string{s.backend.Addr}}},
		Authenticator: tenant.NewAuthenticators(tenant.Sources{File: keys, Certificates: s.certificates}),
		Relay:         relay.Config{TLS: port},
	})
	return s
}

// shows returns the TLS configuration of a client that presents certificates, whatever the server requests.
func (s *secured) shows(cert *tls.Certificate) *tls.Config {
	c := &tls.Config{RootCAs: s.authority.Pool}
	if cert != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	return c
}

// byGRPC makes a call with metadata and returns its result.
func (s *secured) byGRPC(t *testing.T, cert *tls.Certificate) func(meta ...string) string {
	conn := s.gateway.Conn(t, grpc.WithTransportCredentials(credentials.NewTLS(s.shows(cert))))
	return func(meta ...string) string {
		_, err := gatewaytest.NewClient(conn, call.Doc).Invoke(with(t.Context(), meta...),
			request(gatewaytest.Echo, `{}`))
		if status.Code(err) == codes.Unavailable && errorInfo(err) == nil {
			return "no connection"
		}
		return errorInfo(err).GetReason()
	}
}

// byJSON makes the same call over JSON.
func (s *secured) byJSON(t *testing.T, cert *tls.Certificate, second bool) func(meta ...string) string {
	client := s.client(t, cert, second)
	return func(meta ...string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://"+s.gateway.Addr+"/v1/capabilities/caps/invoke", strings.NewReader(`{"tool_name":"echo"}`))
		check.Must(t, err)
		for i := 0; i < len(meta); i += 2 {
			req.Header.Set(meta[i], meta[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			return "no connection"
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode == http.StatusOK {
			return ""
		}
		_, reason, _ := strings.Cut(string(body), `"reason":"`)
		reason, _, _ = strings.Cut(reason, `"`)
		return reason
	}
}

// byWeb makes the same call with a browser client.
func (s *secured) byWeb(t *testing.T, cert *tls.Certificate, second bool,
	options ...connect.ClientOption) func(meta ...string) string {
	client := newWebClient(s.client(t, cert, second), "https://"+s.gateway.Addr, options...)
	return func(meta ...string) string {
		req := connect.NewRequest(request(gatewaytest.Echo, `{}`))
		for i := 0; i < len(meta); i += 2 {
			req.Header().Set(meta[i], meta[i+1])
		}
		_, err := client.invoke.CallUnary(t.Context(), req)
		if err != nil && reasonOf(err) == "" {
			return "no connection"
		}
		return reasonOf(err)
	}
}

func (s *secured) client(t *testing.T, cert *tls.Certificate, second bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!second)
	protocols.SetHTTP2(second)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: s.shows(cert)}
	check.Cleanup(t, transport.CloseIdleConnections)
	return &http.Client{Transport: clienttest.Bound(transport)}
}

const spiffeOrch = "spiffe://example.org/ns/tools/sa/orch"

// TestCertificates: at all doors, the verified certificate of a connection identifies the caller, unless the
// call has a credential.
func TestCertificates(t *testing.T) {
	t.Parallel()
	s := secure(t)
	of := func(change func(*x509.Certificate), names ...string) *tls.Certificate {
		c := s.authority.Client(t, change, names...)
		return &c
	}
	stranger := certtest.New(t).Client(t, nil, spiffeOrch)
	key := "Bearer " + s.ring.credentials["globex"]
	tests := map[string]struct {
		cert   *tls.Certificate
		meta   []string
		reason string
		tenant string
		key    string
		user   string
	}{
		"SPIFFE": {of(nil, spiffeOrch), []string{"x-user-id", "ann", "x-agent-id", "bot"}, "", "acme",
			spiffeOrch, "ann"},
		"a name": {of(nil, "a.agents.example.org"), []string{"x-user-id", "ann"}, "", "globex",
			"a.agents.example.org", ""},
		"a key wins": {of(nil, spiffeOrch), []string{"authorization", key}, "", "globex", s.ring.keys[1].ID, ""},
		"a wrong key wins": {of(nil, spiffeOrch), []string{"authorization", "Bearer nonsense"}, "CREDENTIAL_INVALID",
			"", "", ""},
		"another trust domain": {of(nil, "spiffe://example.com/ns/tools/sa/orch"), nil, "CREDENTIAL_INVALID", "", "",
			""},
		"two URIs": {of(nil, spiffeOrch, "spiffe://example.org/ns/b/sa/orch"), nil, "CREDENTIAL_MISSING", "", "",
			""},
		"no names":       {of(nil), nil, "CREDENTIAL_MISSING", "", "", ""},
		"no certificate": {nil, nil, "CREDENTIAL_MISSING", "", "", ""},
		"a key alone":    {nil, []string{"authorization", key}, "", "globex", s.ring.keys[1].ID, ""},
		"expired": {of(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, spiffeOrch),
			nil, "no connection", "", "", ""},
		"of a server": {of(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
			spiffeOrch), nil, "no connection", "", "", ""},
		"not verified": {&stranger, nil, "no connection", "", "", ""},
		"says it inside": {nil, []string{"x-capgate-origin", "spiffe=" + spiffeOrch + "&expires=9999999999",
			"grpc-metadata-x-capgate-origin", "spiffe=" + spiffeOrch}, "CREDENTIAL_MISSING", "", "", ""},
	}
	for name, test := range tests {
		for door, do := range map[string]func(...string) string{
			"gRPC": s.byGRPC(t, test.cert), "HTTP/1.1": s.byJSON(t, test.cert, false),
			"HTTP/2":             s.byJSON(t, test.cert, true),
			"gRPC-Web":           s.byWeb(t, test.cert, false, connect.WithGRPCWeb()),
			"HTTP/2 and Connect": s.byWeb(t, test.cert, true),
		} {
			for range 2 { // on the same connection
				id := name + " " + door
				if reason := do(append(test.meta, "x-request-id", id)...); reason != test.reason {
					t.Errorf("%s: %q, want %q", id, reason, test.reason)
				}
			}
		}
	}
	refused := 0
	for _, line := range s.gateway.Log.Calls(t, 2*5*(len(tests)-3)) {
		name, _, _ := strings.Cut(line.Text("request_id"), " gRPC")
		name, _, _ = strings.Cut(name, " HTTP/")
		test := tests[name]
		if test.reason != "" {
			refused++
			continue
		}
		if line.Text("tenant") != test.tenant || line.Text("key") != test.key || line.Text("user") != test.user ||
			line.Text("client") != "127.0.0.1" {
			t.Errorf("%s: %v", name, line)
		}
	}
	if refused != 6*2*5 {
		t.Errorf("%d calls were refused", refused)
	}
}

// TestCertificatesChange: new certificate rules apply at once, also to open connections.
func TestCertificatesChange(t *testing.T) {
	t.Parallel()
	s := secure(t)
	cert := s.authority.Client(t, nil, spiffeOrch)
	doors := []func(...string) string{s.byGRPC(t, &cert), s.byJSON(t, &cert, false), s.byJSON(t, &cert, true)}
	for i, step := range []struct {
		rules  []tenant.Certificate
		reason string
	}{
		{[]tenant.Certificate{{SPIFFE: "spiffe://example.org/other", Tenant: "acme"}}, "CREDENTIAL_INVALID"},
		{nil, "CREDENTIAL_MISSING"},
		{[]tenant.Certificate{{SPIFFE: spiffeOrch, Tenant: "globex", Scopes: tenant.Invoke}}, ""},
		{[]tenant.Certificate{{SPIFFE: spiffeOrch, Tenant: "globex", Scopes: tenant.Read}}, "SCOPE_MISSING"},
	} {
		for _, do := range doors {
			if i == 0 && do() != "" {
				t.Error("the calls fail before any change")
			}
		}
		s.certificates.Replace(step.rules)
		for door, do := range doors {
			if reason := do(); reason != step.reason {
				t.Errorf("step %d, door %d: %q, want %q", i, door, reason, step.reason)
			}
		}
	}
}
