package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// tlsOperators is a gateway whose admin API uses TLS, and accepts client certificates of an authority.
type tlsOperators struct {
	files     configMap
	program   *program
	admin     string
	authority *certtest.Authority
}

func startTLSOperators(t *testing.T) *tlsOperators {
	t.Helper()
	o := &tlsOperators{files: configMap{dir: t.TempDir()}, authority: certtest.New(t)}
	o.put(t, o.authority.Server(t), "viewer")
	o.program, _, o.admin = serve(t, asksOperators, "--config", o.files.file("capgate.yaml"))
	return o
}

// put writes the files: a certificate of the admin API, and the role of one client.
func (o *tlsOperators) put(t *testing.T, server tls.Certificate, role string) {
	t.Helper()
	cert, key := certtest.PEMOf(t, server)
	file := o.files.file
	o.files.put(t, map[string]string{"cert": cert, "key": key, "ca": o.authority.PEM, "capgate.yaml": configOf(
		"operators: {tls: {cert_file: "+file("cert")+", key_file: "+file("key")+", client_ca_file: "+file("ca")+
			", client_auth: optional}, certificates: [{spiffe: 'spiffe://example.org/one', roles: ["+role+"]}, "+
			"{dns: ops.example, roles: [admin]}]}\n", "127.0.0.1:1")})
}

// ask makes a request over a new connection, with client certificates. It returns the status, the text and the
// gateway's certificate.
func (o *tlsOperators) ask(t *testing.T, method, path string, header http.Header,
	certs ...tls.Certificate) (status int, text string, of *x509.Certificate, err error) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: o.authority.Pool}}
	if len(certs) > 0 { // it is sent even if the gateway's list of authorities excludes it
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certs[0], nil
		}
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+o.admin+path, strings.NewReader("{}"))
	check.Must(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := (&http.Client{Transport: transport, Timeout: check.Patience}).Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(body), resp.TLS.PeerCertificates[0], nil
}

// TestCertificatesOfOperators: a client certificate has the role of its rule; other certificates have none.
func TestCertificatesOfOperators(t *testing.T) {
	t.Parallel()
	o := startTLSOperators(t)
	const one = "spiffe://example.org/one"
	stranger := certtest.New(t)
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	foreign := http.Header{"Origin": {"https://evil.example"}}
	crossSite := http.Header{"Sec-Fetch-Site": {"cross-site"}}
	const drain = "/v1/backends/127.0.0.1:1:drain"
	for _, test := range []struct {
		name, method, path string
		header             http.Header
		certs              []tls.Certificate
		status             int // 0 means no connection
		reason             string
	}{
		{"a viewer looks", "GET", "/v1/fleets", nil, []tls.Certificate{o.authority.Client(t, nil, one)}, 200, ""},
		{"a viewer changes", "POST", drain, nil, []tls.Certificate{o.authority.Client(t, nil, one)}, 403,
			"ROLE_MISSING"},
		{"an admin changes", "POST", "/v1/backends/10.0.0.1:1:drain", nil,
			[]tls.Certificate{o.authority.Client(t, nil, "ops.example")}, 404, "BACKEND_UNKNOWN"},
		{"who an admin is", "GET", "/v1/me", nil, []tls.Certificate{o.authority.Client(t, nil, "ops.example")}, 200,
			"certificate ops.example"},
		{"no certificate", "GET", "/v1/fleets", nil, nil, 401, "OPERATOR_UNKNOWN"},
		{"a name of no rule", "GET", "/v1/fleets", nil,
			[]tls.Certificate{o.authority.Client(t, nil, "spiffe://example.org/two")}, 401, "OPERATOR_UNKNOWN"},
		{"no certificate, at a probe", "GET", "/livez", nil, nil, 200, ""},
		{"a page of another origin", "POST", drain, foreign,
			[]tls.Certificate{o.authority.Client(t, nil, "ops.example")}, 403, "CROSS_SITE"},
		{"a form of another site", "POST", drain, crossSite,
			[]tls.Certificate{o.authority.Client(t, nil, "ops.example")}, 403, "CROSS_SITE"},
		{"another authority", "GET", "/v1/fleets", nil, []tls.Certificate{stranger.Client(t, nil, one)}, 0, ""},
		{"expired", "GET", "/v1/fleets", nil, []tls.Certificate{o.authority.Client(t, expired, one)}, 0, ""},
	} {
		status, text, _, err := o.ask(t, test.method, test.path, test.header, test.certs...)
		switch {
		case test.status == 0:
			if err == nil {
				t.Errorf("%s: %d %s", test.name, status, text)
			}
		case err != nil || status != test.status || !strings.Contains(text, test.reason):
			t.Errorf("%s: %d %s %v", test.name, status, text, err)
		}
	}
	resp, err := clienttest.HTTP.Get("http://" + o.admin + "/v1/fleets") // cleartext at a TLS port
	if err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("cleartext: %d", resp.StatusCode)
		}
	}
	o.program.stop(t)
}

// TestReloadOfOperatorsTLS: a reload applies a new certificate of the admin API, and new roles of client
// certificates.
func TestReloadOfOperatorsTLS(t *testing.T) {
	t.Parallel()
	o := startTLSOperators(t)
	client := o.authority.Client(t, nil, "spiffe://example.org/one")
	_, _, before, err := o.ask(t, "GET", "/v1/fleets", nil, client)
	check.Must(t, err)
	o.put(t, o.authority.Server(t), "operator")
	o.program.signal(t, syscall.SIGHUP)
	check.Until(t, "the reload", func() (bool, string) {
		status, text, of, err := o.ask(t, "POST", "/v1/backends/10.0.0.1:1:drain", nil, client)
		check.Must(t, err)
		return status == http.StatusNotFound && !of.Equal(before),
			fmt.Sprintf("%d %s; a new certificate: %v", status, text, !of.Equal(before))
	})
	o.program.stop(t)
}
