package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// askHTTP requests a path with a key or a token, or none if it is empty, and returns status and body.
func (g *keyedGateways) askHTTP(t *testing.T, gateway int, method, path, key, body string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.publics[gateway]+path,
		strings.NewReader(body))
	check.Must(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(text)
}

// upload uploads a file at the first gateway, and returns its path.
func (g *keyedGateways) upload(t *testing.T, key, content string) string {
	t.Helper()
	var up struct{ Path string }
	status, said := g.askHTTP(t, 0, http.MethodPost, "/v1/capabilities/caps/artifacts?filename=a.txt", key, content)
	if check.Must(t, json.Unmarshal([]byte(said), &up)); status != http.StatusCreated {
		t.Fatal(status, said)
	}
	return up.Path
}

// sign signs the URL of a file at the first gateway.
func (g *keyedGateways) sign(t *testing.T, key, path string) string {
	t.Helper()
	var signed struct{ URL string }
	status, said := g.askHTTP(t, 0, http.MethodPost, path+"/signed-url", key, "{}")
	if check.Must(t, json.Unmarshal([]byte(said), &signed)); status != http.StatusOK {
		t.Fatal(status, said)
	}
	return signed.URL
}

// downloads checks the response of each gateway to a URL: status, and text in the body.
func (g *keyedGateways) downloads(t *testing.T, url string, want int, text string) {
	t.Helper()
	for gateway := range g.publics {
		g.answers(t, gateway, fmt.Sprint(want, " ", text), func() string {
			status, said := g.askHTTP(t, gateway, http.MethodGet, url, "", "")
			return fmt.Sprint(status, " ", regexp.MustCompile(regexp.QuoteMeta(text)+`|$`).FindString(said))
		})
	}
}

// TestSignedURLsOfThreeGateways: a URL that one gateway signs is valid at all, until the key that requested it
// is revoked.
func TestSignedURLsOfThreeGateways(t *testing.T) {
	t.Parallel()
	g := startKeyed(t)
	g.run(t, 0, "tenants", "create", "acme", "--capabilities", "caps")
	id, doomed := g.key(t, "create", "acme")
	_, other := g.key(t, "create", "acme")
	path := g.upload(t, other, "acme's")
	sign := func(key string) string { return g.sign(t, key, path) }
	ofDoomed, ofOther := sign(doomed), sign(other)
	g.downloads(t, ofDoomed, http.StatusOK, "acme's")
	g.downloads(t, ofOther, http.StatusOK, "acme's")
	g.run(t, 1, "keys", "revoke", "acme", id)
	g.changed(t)
	g.downloads(t, ofDoomed, http.StatusForbidden, "SIGNATURE_INVALID")
	g.downloads(t, ofOther, http.StatusOK, "acme's")
}

// TestSignedURLsOfATenantMadeAnew: a URL that was signed for a tenant ends with it. A new tenant with the same
// id gets neither its URLs nor its files, at any gateway. The callers have a token, so that no key ends with
// the tenant.
func TestSignedURLsOfATenantMadeAnew(t *testing.T) {
	t.Parallel()
	issuer := issuertest.Start(t)
	g := startKeyed(t, fmt.Sprintf("issuers: [{name: corp, issuer: %q, audiences: [capgate], ca_file: %s}]", issuer.URL,
		issuer.CAFile))
	token := issuer.Token(t, nil)
	create := []string{"tenants", "create", "acme", "--capabilities", "caps"}
	g.run(t, 0, create...)
	g.changed(t)
	path := g.upload(t, token, "the first's")
	url := g.sign(t, token, path)
	g.downloads(t, url, http.StatusOK, "the first's")
	g.run(t, 1, "tenants", "rm", "acme", "--force")
	g.changed(t)
	g.downloads(t, url, http.StatusForbidden, "SIGNATURE_INVALID")
	g.run(t, 2, create...)
	g.changed(t)
	g.downloads(t, url, http.StatusForbidden, "SIGNATURE_INVALID")
	for gateway := range g.publics {
		status, said := g.askHTTP(t, gateway, http.MethodGet, path, token, "")
		if status != http.StatusNotFound || !strings.Contains(said, "ARTIFACT_UNKNOWN") {
			t.Errorf("gateway %d, the file of the first: %d %s", gateway, status, said)
		}
	}
	g.downloads(t, g.sign(t, token, g.upload(t, token, "the second's")), http.StatusOK, "the second's")
}
