package oauth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
)

// keyFile writes a private key.
func keyFile(t *testing.T, private crypto.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err)
	file := filepath.Join(t.TempDir(), "key")
	check.Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return file
}

// TestPrivateKeys: a client with a private key signs a JWT for each request for a token, which is for the authorization
// server and for a minute.
func TestPrivateKeys(t *testing.T) {
	t.Parallel()
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	check.Must(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	check.Must(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	for alg, private := range map[jose.SignatureAlgorithm]crypto.Signer{jose.ES256: p256, jose.ES384: p384,
		jose.RS256: rsaKey, jose.EdDSA: ed} {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			a := &oauthtest.Authority{}
			a.Respond = func(w http.ResponseWriter, _ *http.Request) bool {
				a.Issue(w, nil)
				return true
			}
			w := serve(t, a)
			of := &oauth.Settings{Grant: oauth.ClientCredentials, Issuer: a.URL + "/", ClientID: oauthtest.ID,
				KeyFile: keyFile(t, private), KeyID: "one"}
			seen := map[string]bool{}
			for range 2 {
				w.wants(t, w.open(t, of))
			}
			for _, form := range w.Requests() {
				signed, err := jose.ParseSignedCompact(form.Get("client_assertion"), []jose.SignatureAlgorithm{alg})
				check.Must(t, err)
				text, err := signed.Verify(private.Public())
				check.Must(t, err)
				var claims struct {
					Issuer   string `json:"iss"`
					Subject  string `json:"sub"`
					Audience string `json:"aud"`
					ID       string `json:"jti"`
					Issued   int64  `json:"iat"`
					Expires  int64  `json:"exp"`
				}
				check.Must(t, json.Unmarshal(text, &claims))
				if claims.Issuer != oauthtest.ID || claims.Subject != oauthtest.ID || claims.Audience != a.URL ||
					claims.Expires-claims.Issued != 60 || time.Since(time.Unix(claims.Issued, 0)) > time.Minute ||
					seen[claims.ID] || signed.Signatures[0].Header.KeyID != "one" || form.Has("client_secret") ||
					form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
					t.Errorf("%+v, %v", claims, form)
				}
				seen[claims.ID] = true
			}
			if len(seen) != 2 {
				t.Errorf("%d requests for a token", len(seen))
			}
		})
	}
}

// TestFilesOfClients: the error of a file says what is wrong with it, and has nothing of its content.
func TestFilesOfClients(t *testing.T) {
	t.Parallel()
	short, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	check.Must(t, err)
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "f")
		check.Must(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	const block = "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n"
	for name, c := range map[string]struct {
		of   oauth.Settings
		want string
	}{
		"an empty secret":   {oauth.Settings{SecretFile: file("\n")}, "client_secret_file: it must have one line"},
		"two secrets":       {oauth.Settings{SecretFile: file("canary\ncanary\n")}, "it must have one line"},
		"an absent secret":  {oauth.Settings{SecretFile: "/absent"}, "oauth.client_secret_file: open /absent"},
		"no key":            {oauth.Settings{KeyFile: file("canary")}, "oauth.private_key_file: it has no PEM block"},
		"another key":       {oauth.Settings{KeyFile: file(block)}, "it is not a private key in PKCS #8"},
		"a weak key":        {oauth.Settings{KeyFile: keyFile(t, short)}, "the key must be of RSA with 2048 bits"},
		"no authorities":    {oauth.Settings{CAFile: file("canary")}, "oauth.ca_file: it contains no PEM certificate"},
		"a key as a secret": {oauth.Settings{SecretFile: file(block)}, "it must have one line"},
	} {
		_, err := c.of.Read(files{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
