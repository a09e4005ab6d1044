package fleets_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/admin/fleets"
	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestLogins: a login is set for the URL of a fleet's server, shown without its tokens and secret, and deleted.
func TestLogins(t *testing.T) {
	t.Parallel()
	of := logins.New(logins.Config{Store: gatewaytest.OpenStore(t, "embedded").Logins(),
		Log:  slog.New(slog.DiscardHandler),
		Keys: func(context.Context) [][]byte { return [][]byte{bytes.Repeat([]byte{1}, 32)} }})
	of.Set([]logins.Fleet{{Name: "issues", URL: "https://mcp.example.com/mcp", Issuer: "https://login.example.com",
		ClientID: "gateway"}})
	url := gatewaytest.ServeOperators(t, fleets.New(fleets.Config{Logins: of})).URL + "/v1/fleets/"
	const login = `{"url": "https://mcp.example.com/mcp", "client_id": "gateway", "client_secret": "secret-1", ` +
		`"token_url": "https://login.example.com/token", "access_token": "secret-2", "refresh_token": "secret-3", ` +
		`"auth_method": "client_secret_basic", "expire_time": "2099-01-01T00:00:00Z", "scopes": ["read"]}`
	long := strings.Repeat("x", logins.MaxText+1)
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "mail/login", "", 404, "FLEET_LOGIN_UNKNOWN"},
		{"PUT", "mail/login", login, 404, "FLEET_LOGIN_UNKNOWN"},
		{"DELETE", "issues/login", "", 404, "FLEET_LOGIN_UNKNOWN"},
		{"GET", "issues/login", "", 200, `"state":"needed","problem":"no operator has logged in yet"`},
		{"PUT", "issues/login", strings.Replace(login, "/mcp", "/other", 1), 400, "FLEET_LOGIN_URL"},
		{"PUT", "issues/login", strings.Replace(login, "client_secret_basic", "none", 1), 400, `"field":"auth_method"`},
		{"PUT", "issues/login", strings.Replace(login, "https://login", "http://login", 1), 400, `"field":"token_url"`},
		{"PUT", "issues/login", strings.Replace(login, "/token", "/token?a=b", 1), 400, `"field":"token_url"`},
		{"PUT", "issues/login", strings.Replace(login, "secret-2", "a\\nb", 1), 400, `"field":"access_token"`},
		{"PUT", "issues/login", strings.Replace(login, "secret-2", "", 1), 400, `"field":"access_token"`},
		{"PUT", "issues/login", strings.Replace(login, "secret-3", long, 1), 400, `"field":"refresh_token"`},
		{"PUT", "issues/login", strings.Replace(login, `"read"`, `"a b"`, 1), 400, `"field":"scopes"`},
		{"PUT", "issues/login", strings.Replace(login, "secret-3", strings.Repeat(long, 100), 1), 400, "INVALID_BODY"},
		{"PUT", "issues/login", login, 200, `"state":"active"`},
		{"GET", "issues/login", "", 200, `"granted_scopes":["read"]`},
		{"GET", "issues/login", "", 200, `"refreshable":true`},
		{"DELETE", "issues/login", "", 200, "{}"},
		{"GET", "issues/login", "", 200, `"state":"needed"`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, url+test.path, strings.NewReader(test.body))
		check.Must(t, err)
		resp, err := clienttest.HTTP.Do(req)
		check.Must(t, err)
		text, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		_ = resp.Body.Close()
		plain := strings.ReplaceAll(string(text), ": ", ":")
		if resp.StatusCode != test.status || !strings.Contains(plain, test.want) || strings.Contains(plain, "secret-") {
			t.Errorf("%s %s %.200s: %d %s, want %d %s", test.method, test.path, test.body, resp.StatusCode, text,
				test.status, test.want)
		}
	}
}
