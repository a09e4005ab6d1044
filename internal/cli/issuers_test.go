package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// TestIssuersOfTheFile: issuers are added, changed and removed with the file while calls run, the start does
// not wait for them, and their problems are reported.
func TestIssuersOfTheFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	issuer, other := issuertest.Start(t), issuertest.Start(t)
	key, ofKey := makeKey(t)
	var files configMap
	put := func(issuers string) {
		text := "tenants: [{id: acme, capabilities: ['*'], keys: [" + ofKey +
			"]}, {id: globex, capabilities: [other]}]\n" + issuers
		files.put(t, map[string]string{"capgate.yaml": configOf(text, backend), "bad": "no certificate"})
	}
	block := func(i *issuertest.Issuer, name, more string) string {
		return fmt.Sprintf("  - {name: %s, issuer: %q, audiences: [capgate], ca_file: %s%s}\n", name, i.URL, i.CAFile,
			more)
	}
	raw, gone := issuer.Token(t, nil), other.Token(t, nil)
	other.Stop(t)
	put("issuers:\n" + block(issuer, "corp", "") + block(other, "away", ""))
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	change := func(text string) { // at once: another test covers that the gateway notices the change itself
		put(text)
		p.signal(t, syscall.SIGHUP)
	}
	p.stderr.wait(t, p, `"tenants":2,"keys":1,"certificates":0,"redis":false,"issuers":2`)
	client := dial(t, public)
	wait := func(what, credential, before, after string) { // a change of the file has no event of its own
		t.Helper()
		becomes(t, what, func() string { return answerTo(t, client, credential) }, before, after)
	}
	stays := func(what, credential, answer string) {
		t.Helper()
		wait(what, credential, answer, answer)
	}
	wait("a token", raw, "IDENTITY_UNAVAILABLE", "OK")
	stays("a key", key, "OK")
	stays("an issuer that is away", gone, "IDENTITY_UNAVAILABLE")
	for _, line := range []string{`capgate_issuer_up{issuer="corp"} 1`, `capgate_issuer_up{issuer="away"} 0`,
		`capgate_issuer_fetches_total{issuer="corp",result="ok"} 1`} {
		waitPage(t, "http://"+admin+"/metrics", line)
	}
	if exit, _, stderr := runProgram(t, []string{"CAPGATE_KEY=" + raw}, "invoke", "--addr", public, "caps",
		gatewaytest.Echo); exit != 0 {
		t.Errorf("capgate invoke: %d, %s", exit, stderr)
	}
	other.Resume(t)
	wait("an issuer that is back", gone, "IDENTITY_UNAVAILABLE", "OK")

	change("issuers:\n" + block(issuer, "corp", ", tenant: globex"))
	wait("an issuer that was taken out", gone, "OK", "CREDENTIAL_INVALID")
	stays("another tenant, which has not the capability", raw, "CAPABILITY_UNKNOWN")
	change("issuers:\n" + block(issuer, "corp", ", required_claims: {email_verified: true}"))
	wait("a claim is missing", raw, "CAPABILITY_UNKNOWN", "CREDENTIAL_INVALID")
	verified := issuer.Token(t, map[string]any{"email_verified": true})
	stays("a claim is there", verified, "OK")

	for text, want := range map[string]string{
		"  - {name: corp, issuer: " + issuer.URL +
			", audiences: [capgate], ca_file: /nowhere}\n": "issuer corp: ca_file: /nowhere: cannot be read",
		"  - {name: corp, issuer: " + issuer.URL + ", audiences: [capgate], ca_file: " + files.file("bad") +
			"}\n": "contains no PEM certificate",
		"  - {name: corp, issuer: " + issuer.URL +
			"}\n": "issuers[0].audiences: required",
	} {
		change("issuers:\n" + text)
		waitPage(t, "http://"+admin+"/readyz", want)
		if exit, _, stderr := runProgram(t, nil, "check", "--config", files.file("capgate.yaml")); exit != 1 ||
			!strings.Contains(stderr, want) {
			t.Errorf("capgate check: %d, %s", exit, stderr)
		}
	}
	stays("what was in force stays", verified, "OK")
	change("")
	wait("no issuers", verified, "OK", "CREDENTIAL_INVALID")
	stays("a key", key, "OK")
	p.stop(t)
	for _, token := range []string{raw, gone, verified} {
		if strings.Contains(p.stderr.String(), token[len(token)-40:]) {
			t.Error("the log has a token")
		}
	}
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte("fleets: [{capability: a, backends: []}]\nissuers: [{name: a, issuer: "+
		"'https://a.example.com', audiences: [b]}]"), 0o600))
	if exit, _, stderr := runProgram(t, nil, "check", "--config", file); exit != 1 ||
		!strings.Contains(stderr, "add tenants") {
		t.Errorf("capgate check: %d, %s", exit, stderr)
	}
}

// TestIDTokensOfSignInsAreRejected: if the client id of a sign-in is also an audience, an ID token for that
// client is not a credential of a caller, even without the optional claims that mark it.
func TestIDTokensOfSignInsAreRejected(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	issuer := issuertest.Start(t)
	text := fmt.Sprintf("tenants: [{id: acme, capabilities: ['*']}]\n"+
		"issuers: [{name: corp, issuer: %q, audiences: [capgate, api], ca_file: %s}]\n"+
		"operators: {sign_in: [{issuer: corp, client_id: capgate}], people: [{issuer: corp, user: ann, roles: "+
		"[admin]}]}\n", issuer.URL, issuer.CAFile)
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(configOf(text, backend)), 0o600))
	_, public, admin := serve(t, []string{"CAPGATE_ADMIN_INSECURE="}, "--config", file)
	client := dial(t, public)
	for name, test := range map[string]struct {
		typ, audience string
		caller        string
		operator      int
	}{
		"an ID token":     {"JWT", "capgate", "CREDENTIAL_INVALID", http.StatusUnauthorized},
		"an access token": {"at+jwt", "capgate", "OK", http.StatusOK},
		"for the API":     {"JWT", "api", "OK", http.StatusOK},
	} {
		raw := issuer.Sign(t, "ES256", map[string]any{"alg": "ES256", "kid": issuer.KID(t, "ES256"), "typ": test.typ},
			issuer.Claims(map[string]any{"aud": test.audience}))
		becomes(t, name, func() string { return answerTo(t, client, raw) }, "IDENTITY_UNAVAILABLE", test.caller)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/v1/fleets",
			http.NoBody)
		check.Must(t, err)
		request.Header.Set("Authorization", "Bearer "+raw)
		resp, err := clienttest.HTTP.Do(request)
		check.Must(t, err)
		resp.Body.Close()
		if resp.StatusCode != test.operator {
			t.Errorf("%s, as an operator: %s", name, resp.Status)
		}
	}
}

// TestTokensOfTenantsInRedis: Redis determines whether a token's tenant may call, and changes apply.
func TestTokensOfTenantsInRedis(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	issuer := issuertest.Start(t)
	var files configMap
	files.put(t, map[string]string{"capgate.yaml": configOf(fmt.Sprintf("identity: {store: redis}\nissuers: "+
		"[{name: corp, issuer: %q, audiences: [capgate], ca_file: %s}]\n", issuer.URL, issuer.CAFile), backend)})
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	// Redis is embedded
	p.stderr.wait(t, p, "new tenants and API keys end with this process")
	client, raw := dial(t, public), issuer.Token(t, nil)
	invoke := func() string { return answerTo(t, client, raw) }
	last := "CREDENTIAL_INVALID"
	becomes(t, "the answer if there is no tenant", invoke, "IDENTITY_UNAVAILABLE", last)
	for _, step := range []struct {
		args   []string
		reason string
	}{
		{[]string{"create", "acme", "--capabilities", "*"}, "OK"},
		{[]string{"set", "acme", "--disabled"}, "TENANT_DISABLED"},
		{[]string{"set", "acme", "--disabled=false"}, "OK"},
		{[]string{"rm", "acme"}, "CREDENTIAL_INVALID"},
	} {
		if exit, _, stderr := runProgram(t, nil,
			append(append([]string{"tenants"}, step.args...), "--admin", admin)...); exit != 0 {
			t.Fatalf("%v: %s", step.args, stderr)
		}
		becomes(t, strings.Join(step.args, " "), invoke, last, step.reason) // replicas follow by themselves
		last = step.reason
	}
}
