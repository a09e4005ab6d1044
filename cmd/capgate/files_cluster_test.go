package main

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
)

// askHTTP asks a gateway with a key, "" being none, and answers with status and body.
func (g *keyedGateways) askHTTP(t *testing.T, gateway int, method, path, key, body string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.publics[gateway]+path,
		strings.NewReader(body))
	check.Must(t, err)
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(text)
}

// TestSignedURLsOfThreeGateways: a URL that one signs is good at all, until the key that asked for it is revoked
// at one.
func TestSignedURLsOfThreeGateways(t *testing.T) {
	t.Parallel()
	g := startKeyed(t)
	g.run(t, 0, "tenants", "create", "acme", "--capabilities", "caps")
	id, doomed := g.key(t, "create", "acme")
	_, other := g.key(t, "create", "acme")
	var up struct{ Path string }
	status, said := g.askHTTP(t, 0, http.MethodPost, "/v1/capabilities/caps/artifacts?filename=a.txt", other, "acme's")
	if check.Must(t, json.Unmarshal([]byte(said), &up)); status != http.StatusCreated {
		t.Fatal(status, said)
	}
	sign := func(key string) string {
		var signed struct{ URL string }
		status, said := g.askHTTP(t, 0, http.MethodPost, up.Path+"/signed-url", key, "{}")
		if check.Must(t, json.Unmarshal([]byte(said), &signed)); status != http.StatusOK {
			t.Fatal(status, said)
		}
		return signed.URL
	}
	ofDoomed, ofOther := sign(doomed), sign(other)
	for gateway := range g.publics {
		for _, url := range []string{ofDoomed, ofOther} {
			if status, said := g.askHTTP(t, gateway, http.MethodGet, url, "", ""); status != http.StatusOK || said != "acme's" {
				t.Fatalf("gateway %d: %d %s", gateway, status, said)
			}
		}
	}
	g.run(t, 1, "keys", "revoke", "acme", id)
	g.changed(t)
	for gateway := range g.publics {
		g.answers(t, gateway, "403 SIGNATURE_INVALID", func() string {
			status, said := g.askHTTP(t, gateway, http.MethodGet, ofDoomed, "", "")
			return fmt.Sprint(status, " ", regexp.MustCompile(`SIGNATURE_INVALID|$`).FindString(said))
		})
		if status, said := g.askHTTP(t, gateway, http.MethodGet, ofOther, "", ""); status != http.StatusOK {
			t.Errorf("gateway %d, what another key signed: %d %s", gateway, status, said)
		}
	}
}
