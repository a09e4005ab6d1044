package issuertest

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Issuer is a running issuer.
type Issuer struct {
	URL    string
	CAFile string         // its authority, PEM
	Roots  *x509.CertPool // the same as a pool

	dir    string
	addr   string
	client *http.Client
	cmd    *exec.Cmd
}

// Start runs an issuer until the test ends.
func Start(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{dir: t.TempDir(), addr: check.ClosedPort(t), Roots: x509.NewCertPool()}
	i.CAFile = filepath.Join(i.dir, "cert")
	writeCertificate(t, i.dir)
	text, err := os.ReadFile(i.CAFile)
	if err != nil || !i.Roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	i.client = &http.Client{Timeout: check.Patience,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: i.Roots}}}
	i.Resume(t)
	check.Cleanup(t, func() { i.Stop(t) })
	return i
}

// Stop ends the process: connections are refused.
func (i *Issuer) Stop(t testing.TB) {
	t.Helper()
	if i.cmd == nil {
		return
	}
	_ = i.cmd.Process.Kill() // it may have ended
	_ = i.cmd.Wait()
	i.cmd = nil
	i.client.CloseIdleConnections() // the server has ended
}

// Resume starts the process again after Stop, at the same address and with its keys.
func (i *Issuer) Resume(t testing.TB) {
	t.Helper()
	self, err := os.Executable()
	check.Must(t, err)
	i.cmd = exec.Command(self, asIssuer, i.dir, i.addr)
	// it ends with the tests, even if they are killed
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	i.cmd.Stderr = os.Stderr
	out, err := i.cmd.StdoutPipe()
	if err == nil {
		err = i.cmd.Start()
	}
	check.Must(t, err)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the issuer did not start: %v", err)
	}
	i.addr = line[:len(line)-1]
	i.URL = "https://" + i.addr
}

// Rotate replaces the issuer's keys. If keep is set, the old ones stay published.
func (i *Issuer) Rotate(t testing.TB, keep bool) {
	t.Helper()
	i.post(t, "/test/rotate?keep="+strconv.FormatBool(keep), "")
}

// Behave sets the kind of responses: "" valid; "scopes a b" valid, with these scopes; "500", "redirect", "garbage",
// "huge", "silence", "other issuer", "cleartext keys", "no keys". Of a login: "denied", "no iss", "missing iss", "iss
// of another", "wrong nonce", "no nonce", "wrong audience", "two audiences", "wrong azp", "expired", "wrong issuer",
// "wrong signature", "cleartext token endpoint".
func (i *Issuer) Behave(t testing.TB, how string) {
	t.Helper()
	i.post(t, "/test/behave?as="+url.QueryEscape(how), "")
}

// Person sets the claims of the person who signs in from now on, in addition to the default claims of a login. A nil
// removes a claim. By default, ann of the tenant acme signs in.
func (i *Issuer) Person(t testing.TB, claims map[string]any) {
	t.Helper()
	i.post(t, "/test/people", asText(t, map[string]any{"person": claims}))
}

// Clients sets the clients that may begin a login, with their secrets; "" marks a public client. By default, every
// client may.
func (i *Issuer) Clients(t testing.TB, secrets map[string]string) {
	t.Helper()
	i.post(t, "/test/people", asText(t, map[string]any{"clients": secrets}))
}

// Browser returns a client that trusts the issuer and follows no redirects.
func (i *Issuer) Browser() *http.Client {
	return &http.Client{Timeout: check.Patience, Transport: i.client.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Logins returns the number of codes that were exchanged for tokens.
func (i *Issuer) Logins(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(i.do(t, http.MethodGet, "/test/logins", ""))
	check.Must(t, err)
	return n
}

// Requests returns the number of requests for its keys.
func (i *Issuer) Requests(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(i.do(t, http.MethodGet, "/test/requests", ""))
	check.Must(t, err)
	return n
}

// Keys returns the published keys as a JWK Set, regardless of Behave.
func (i *Issuer) Keys(t testing.TB) (set jose.JSONWebKeySet) {
	t.Helper()
	check.Must(t, json.Unmarshal([]byte(i.do(t, http.MethodGet, "/test/keys", "")), &set))
	return set
}

// Claims returns the claims of a token that is valid for an hour, with changes. A nil removes a claim.
func (i *Issuer) Claims(change map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "aud": "capgate", "sub": "ann", "tenant_id": "acme", "scope": "invoke read",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": rand.Text(),
	}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// Token returns a token of Claims(change), signed with the current key for ES256.
func (i *Issuer) Token(t testing.TB, change map[string]any) string {
	t.Helper()
	return i.TokenBy(t, "ES256", change)
}

// TokenBy is Token with an algorithm, RS256, ES256 or EdDSA.
func (i *Issuer) TokenBy(t testing.TB, alg string, change map[string]any) string {
	t.Helper()
	return i.Sign(t, alg, map[string]any{"alg": alg, "kid": i.KID(t, alg), "typ": "at+jwt"}, i.Claims(change))
}

// KID returns the id of the current key for an algorithm.
func (i *Issuer) KID(t testing.TB, alg string) string {
	t.Helper()
	return i.Key(t, alg).KeyID
}

// Key returns the current public key for an algorithm.
func (i *Issuer) Key(t testing.TB, alg string) jose.JSONWebKey {
	t.Helper()
	for _, k := range i.Keys(t).Keys {
		if k.Algorithm == alg {
			return k
		}
	}
	t.Fatalf("no key for %s", alg)
	return jose.JSONWebKey{}
}

// Sign signs any header and any claims with the current key for an algorithm: values for encoding/json, or verbatim
// text.
func (i *Issuer) Sign(t testing.TB, alg string, header, claims any) string {
	t.Helper()
	return i.post(t, "/test/sign/"+alg, Part(t, header)+"."+Part(t, claims))
}

// Part returns a part of a token: base64url of a value as JSON, or of verbatim text.
func Part(t testing.TB, v any) string {
	t.Helper()
	text, isText := v.(string)
	if !isText {
		data, err := json.Marshal(v)
		check.Must(t, err)
		text = string(data)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func (i *Issuer) post(t testing.TB, path, body string) string {
	t.Helper()
	return i.do(t, http.MethodPost, path, body)
}

func (i *Issuer) do(t testing.TB, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, i.URL+path, bytes.NewReader([]byte(body)))
	check.Must(t, err)
	resp, err := i.client.Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", path, resp.StatusCode, text, err)
	}
	return string(text)
}

// writeCertificate writes a self-signed certificate for 127.0.0.1.
func writeCertificate(t testing.TB, dir string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	check.Must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err)
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert},
		"key": {Type: "PRIVATE KEY", Bytes: der}} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}
