package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// TestSecretsOfOperatorsComeOutNowhere: secrets of operators appear in no page and not in the log: valid and
// invalid keys, a session's cookie, an issuer's client secret, and the URL of a Slack channel.
func TestSecretsOfOperatorsComeOutNowhere(t *testing.T) {
	t.Parallel()
	c, issuer := newCanaries(t), issuertest.Start(t)
	slack := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(slack.Close)
	id, secret := tenant.NewCredential()
	key := tenant.Credential(id, c.plantAs("operator's key", secret))
	files := configMap{dir: t.TempDir()}
	files.put(t, map[string]string{"client": c.plant("client's secret"), "slack": slack.URL + "/" +
		c.plant("Slack's URL"), "capgate.yaml": strings.Replace(configOf(strings.Join([]string{
		"log: {level: debug}", "policies: {}", "tenants: [{id: acme, capabilities: ['*']}]",
		"issuers: [{name: corp, issuer: '" + issuer.URL + "', audiences: [capgate], ca_file: " + issuer.CAFile + "}]",
		"audit: {to: " + files.file("audit") + "}",
		"approvals: {notices: [{name: team, format: slack, url_file: " + files.file("slack") + "}]}",
		"operators: {keys: [{id: " + id + ", hash: '" + tenant.HashOf(secret, nil).String() + "', roles: [admin]}], " +
			"sign_in: [{issuer: corp, client_id: gate, client_secret_file: " + files.file("client") + "}]}",
	}, "\n"), gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr), "policy: allow", "policy: ask", 1)})
	p, _, admin := serve(t, asksOperators, "--config", files.file("capgate.yaml"))
	base, v := "http://"+admin, newVisitor(t, issuer)
	scan := func(sink string, resp *http.Response, text string) {
		c.scan(sink, fmt.Sprintf("%d %v %s", resp.StatusCode, resp.Header, text))
	}
	resp, text := v.ask(http.MethodPost, base+"/signin/key", url.Values{"key": {c.plant("wrong key")}}.Encode(),
		"text/html")
	scan("sign-in", resp, text)
	resp, text = v.ask(http.MethodPost, base+"/signin/key", url.Values{"key": {key}}.Encode(), "text/html")
	c.scan("sign-in", text)
	for _, cookie := range resp.Cookies() {
		c.plantAs("cookie "+cookie.Name, cookie.Value)
	}
	v.remember(base)
	if len(c.planted) < 5 {
		t.Fatal("there is no session:", resp.StatusCode, text)
	}
	wrong := []string{operator.StartPrefix + c.plant("start token"),
		operator.SessionPrefix + c.plant("session of a program"),
		tenant.Credential(id, c.plant("wrong secret"))}
	for _, path := range []string{"/", "/v1/me", "/v1/sessions", "/v1/fleets", "/v1/audit", "/v1/calls", "/v1/summary",
		"/v1/webhooks/dead", "/metrics", "/readyz?verbose", "/signin", "/nothing", "/debug/pprof/cmdline",
		"/debug/pprof/goroutine?debug=2"} {
		resp, text = v.ask(http.MethodGet, base+path, "", "application/json")
		scan("pages of "+path, resp, text)
		_, text = request(t.Context(), t, http.MethodGet, base+path, key)
		c.scan("pages with a key", text)
	}
	for _, credential := range wrong {
		_, text = request(t.Context(), t, http.MethodGet, base+"/v1/fleets", credential)
		c.scan("refusals", text)
	}
	resp, text = v.ask(http.MethodGet, base+"/?token="+c.plant("token of a link"), "", "application/json")
	scan("pages of a link", resp, text)
	resp, text = v.navigate(base + "/signin/oidc/corp?next=/%23/inbox")
	c.scan("redirects to the issuer", fmt.Sprint(resp.StatusCode, resp.Header.Get("Location"), text))
	p.stop(t)
	c.scan("log", p.stdout.String()+p.stderr.String())
	audit, err := os.ReadFile(files.file("audit"))
	check.Must(t, err)
	c.scan("audit log", string(audit))
	c.search()
}
