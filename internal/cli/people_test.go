package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// visitor is a browser with cookies. It does not follow redirects by itself.
type visitor struct {
	*testing.T
	http.Client
	csrf   string
	bearer string // credential of events; if empty, the cookie
}

func newVisitor(t *testing.T, i *issuertest.Issuer) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check.Must(t, err)
	return &visitor{T: t, Client: http.Client{Jar: jar, Timeout: check.Patience,
		Transport:     clienttest.Bound(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: i.Roots}}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// ask sends a request as a script of the page, or as a navigation if accept is text/html.
func (v *visitor) ask(method, address, body, accept string) (*http.Response, string) {
	v.Helper()
	req, err := http.NewRequestWithContext(v.Context(), method, address, strings.NewReader(body))
	check.Must(v.T, err)
	req.Header.Set("Accept", accept)
	if method != http.MethodGet {
		req.Header.Set("X-CSRF-Token", v.csrf)
		req.Header.Set("Content-Type", "application/json")
		if strings.HasSuffix(address, "/signin/key") {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	resp, err := v.Do(req)
	check.Must(v.T, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(v.T, err)
	return resp, string(text)
}

func (v *visitor) navigate(address string) (*http.Response, string) {
	v.Helper()
	return v.ask(http.MethodGet, address, "", "text/html")
}

// want checks the status of a request, and that the body contains part.
func (v *visitor) want(method, address, body string, status int, part string) string {
	v.Helper()
	resp, text := v.ask(method, address, body, "application/json")
	if resp.StatusCode != status || !strings.Contains(text, part) {
		v.Errorf("%s %s: %d %s; want %d, %s", method, address, resp.StatusCode, text, status, part)
	}
	return text
}

// signIn signs in at the issuer, for a port and the mount of its routes.
func (v *visitor) signIn(base string) {
	v.Helper()
	resp, text := v.navigate(base + "/signin/oidc/corp")
	for range 2 { // to the issuer, and back
		if resp.StatusCode/100 != 3 {
			v.Fatalf("%s: %d %s", base, resp.StatusCode, text)
		}
		resp, text = v.navigate(resp.Header.Get("Location"))
	}
	if resp.StatusCode != http.StatusSeeOther {
		v.Fatalf("%s: %d %s", base, resp.StatusCode, text)
	}
	v.remember(base)
}

// remember reads the secret of the session.
func (v *visitor) remember(base string) {
	v.Helper()
	var me struct {
		CSRF string `json:"csrf_token"`
	}
	check.Must(v.T, json.Unmarshal([]byte(v.want(http.MethodGet, base+"/v1/me", "", 200, "csrf_token")), &me))
	v.csrf = me.CSRF
}

// peopleRig is two replicas whose operators and approvers sign in at an issuer.
type peopleRig struct {
	issuer       *issuertest.Issuer
	files        configMap
	config       func(people, keys string) string
	more         string // of the configuration
	keys         string // of acme, in the configuration
	p            [2]*program
	admin, inbox [2]string         // URLs
	public       [2]string         // addresses
	key, ofKey   string            // makes calls
	others       map[string]string // keys for calls of the tenants globex and initech
	approver     string            // key for answers
}

func startPeople(t *testing.T, more string) *peopleRig {
	t.Helper()
	r := &peopleRig{issuer: issuertest.Start(t), more: more}
	backend, redis := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr, redistest.Start(t).URL()
	var ofApprover, ofGlobex, ofInitech, globex, initech string
	r.key, r.ofKey = makeKey(t, "--asserts", "user")
	r.approver, ofApprover = makeKey(t, "--scopes", "approve,read", "--name", "Desk of Acme")
	globex, ofGlobex = makeKey(t, "--asserts", "user")
	initech, ofInitech = makeKey(t, "--asserts", "user")
	r.others = map[string]string{"globex": globex, "initech": initech}
	r.config = func(people, keys string) string {
		return strings.Replace(configOf(fmt.Sprintf("%s\npolicies: {}\ntenants: [{id: acme, capabilities: ['*'], "+
			"keys: [%s]}, {id: globex, capabilities: ['*'], keys: [%s]}, {id: initech, capabilities: ['*'], "+
			"keys: [%s]}]\nissuers: [{name: corp, issuer: %q, audiences: [capgate], "+
			"ca_file: %s, claims: {scopes: scope, groups: groups}}]\noperators: {sign_in: [{issuer: corp, client_id: "+
			"gate}], people: [%s]}\n", patientRedis(redis), keys, ofGlobex, ofInitech,
			r.issuer.URL, r.issuer.CAFile, people)+r.more, backend),
			"policy: allow", "policy: ask", 1)
	}
	r.keys = r.ofKey + ", " + ofApprover
	r.put(t, "{issuer: corp, group: ops, roles: [admin]}", r.keys)
	for n := range r.p {
		var admin string
		r.p[n], r.public[n], admin = serve(t, []string{"CAPGATE_ADMIN_INSECURE="}, "--config",
			r.files.file("capgate.yaml"))
		_, inbox, _ := strings.Cut(r.p[n].stderr.String(), "Approvers open the inbox at:\n  ")
		r.inbox[n], _, _ = strings.Cut(inbox, "\n") // as printed
		if r.admin[n] = "http://" + admin; r.inbox[n] != "http://"+r.public[n]+"/inbox" {
			t.Fatalf("got %q", r.inbox[n])
		}
	}
	return r
}

func (r *peopleRig) put(t *testing.T, people, keys string) {
	t.Helper()
	r.files.put(t, map[string]string{"capgate.yaml": r.config(people, keys)})
}

// gone waits until a request is rejected.
func (v *visitor) gone(address string, status int) {
	v.Helper()
	check.Until(v, address+" to be refused", func() (bool, string) { // a revocation has no event for the client
		resp, _ := v.ask(http.MethodGet, address, "", "application/json")
		return resp.StatusCode == status, fmt.Sprintf("%d, not %d", resp.StatusCode, status)
	})
}

// TestPeopleOfTheAdminPort: a person who signs in at one replica is an operator at both, until a revocation or
// a reload.
func TestPeopleOfTheAdminPort(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "")
	r.issuer.Person(t, map[string]any{"groups": []string{"ops"}})
	ann, eve := newVisitor(t, r.issuer), newVisitor(t, r.issuer)
	if resp, text := ann.navigate(r.admin[0] + "/"); resp.StatusCode != 200 ||
		!strings.Contains(text, "<!doctype html>") {
		t.Errorf("the page that leads to the sign-in: %d %s", resp.StatusCode, text)
	}
	if resp, _ := ann.navigate(r.admin[0] + "/docs"); resp.StatusCode != 303 ||
		resp.Header.Get("Location") != "/signin?next=%2Fdocs" {
		t.Errorf("got %d %s", resp.StatusCode, resp.Header.Get("Location"))
	}
	ann.want("GET", r.admin[0]+"/", "", 401, "OPERATOR_UNKNOWN")
	ann.want("GET", r.admin[0]+"/v1/me", "", 401, "OPERATOR_UNKNOWN")
	ann.signIn(r.admin[0])
	for _, admin := range r.admin {
		ann.want("GET", admin+"/v1/me", "", 200, `"roles":["admin"],"groups":["ops"],"via":"session","issuer":"corp"`)
		ann.want("GET", admin+"/v1/fleets", "", 200, "caps")
		ann.want("GET", admin+"/v1/sessions", "", 200, "ann, issuer corp")
	}
	for name, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.admin[0]+"/v1/sessions:revoke",
			strings.NewReader(`{"name":"ann, issuer corp"}`))
		check.Must(t, err)
		req.Header = http.Header{name: {value}, "X-Csrf-Token": {ann.csrf}, "Content-Type": {"application/json"}}
		resp, err := ann.Do(req)
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s of another site, with the session and its token: %d", name, resp.StatusCode)
		}
	}
	good := ann.csrf
	ann.csrf = ""
	ann.want("POST", r.admin[0]+"/v1/sessions:revoke", `{"session":"x"}`, 403, "CSRF_TOKEN_MISSING")
	ann.want("GET", r.inbox[0]+"/v1/me", "", 401, "SESSION_INVALID") // the jar sends all cookies of 127.0.0.1
	ann.csrf = good
	ann.want("POST", r.admin[0]+"/v1/sessions:revoke", `{"session":"x","name":"y"}`, 400, "INVALID_BODY")
	r.issuer.Person(t, map[string]any{"sub": "eve"})
	if resp, _ := eve.navigate(r.admin[0] + "/signin/oidc/corp"); resp.StatusCode == 303 {
		resp, _ = eve.navigate(resp.Header.Get("Location"))
		if resp, text := eve.navigate(resp.Header.Get("Location")); resp.StatusCode != 403 ||
			!strings.Contains(text, "ROLE_MISSING") {
			t.Errorf("eve: %d %s", resp.StatusCode, text)
		}
	}
	second := newVisitor(t, r.issuer)
	r.issuer.Person(t, map[string]any{"groups": []string{"ops"}})
	second.signIn(r.admin[1])
	ann.want("POST", r.admin[1]+"/v1/sessions:revoke", `{"name":"ann, issuer corp"}`, 200, "{}")
	for _, admin := range r.admin {
		ann.gone(admin+"/v1/me", 401)
		second.gone(admin+"/v1/me", 401)
	}
	ann.signIn(r.admin[0])
	r.put(t, "{issuer: corp, group: others, roles: [admin]}", r.ofKey)
	r.p[0].signal(t, syscall.SIGHUP)
	ann.gone(r.admin[0]+"/v1/me", 403)
}

// TestPeopleOfTheInbox: people answer approvals of their tenant at the public port, with a cookie that is valid
// only there, until the session ends.
func TestPeopleOfTheInbox(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "")
	r.issuer.Person(t, map[string]any{"sub": "bob", "scope": "approve read"})
	bob, eve, root := newVisitor(t, r.issuer), newVisitor(t, r.issuer), newVisitor(t, r.issuer)
	if resp, text := bob.navigate(r.inbox[0]); resp.StatusCode != 200 || !strings.Contains(text, "<!doctype html>") ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Errorf("the page: %d %s", resp.StatusCode, text)
	}
	bob.want("GET", r.inbox[0]+"/v1/approvals", "", 401, "SESSION_INVALID")
	bob.signIn(r.inbox[0])
	bob.want("GET", r.inbox[1]+"/v1/me", "", 200,
		`"name":"bob, issuer corp","user":"bob","tenant":"acme","roles":["approver"]`)
	caller := dial(t, r.public[0])
	_, err := invokeAs(t, caller, "carol", `{"n":1}`, "authorization", "Bearer "+r.key)
	id := clienttest.Metadata(err, "approval")
	if id == "" {
		t.Fatal(err)
	}
	for _, inbox := range r.inbox {
		bob.want("GET", inbox+"/v1/approvals", "", 200, id)
		bob.want("GET", inbox+"/v1/approvals/"+id, "", 200, `"carol"`)
	}
	// the cookie is valid nowhere else
	for _, path := range []string{"/v1/approvals", "/v1/capabilities", "/v1/tenants"} {
		bob.want("GET", "http://"+r.public[0]+path, "", 401, "CREDENTIAL_MISSING")
	}
	bob.want("GET", r.inbox[0]+"/v1/capabilities", "", 404, "NO_SUCH_PATH")
	bob.want("GET", r.admin[0]+"/v1/me", "", 401, "OPERATOR_UNKNOWN")
	bob.want("GET", r.inbox[0]+"/v1/approvals?tenant=globex", "", 403,
		"you may not answer approvals of the tenant globex: you may answer those of acme")
	good := bob.csrf
	bob.csrf = "x"
	bob.want("POST", r.inbox[0]+"/v1/approvals/"+id+"/approve", "{}", 403, "CSRF_TOKEN_MISSING")
	bob.csrf = good

	r.issuer.Person(t, map[string]any{"sub": "eve", "tenant_id": "globex", "scope": "approve"})
	eve.signIn(r.inbox[0])
	eve.want("GET", r.inbox[0]+"/v1/approvals/"+id, "", 404, "APPROVAL_UNKNOWN")
	eve.want("POST", r.inbox[0]+"/v1/approvals/"+id+"/approve", "{}", 404, "APPROVAL_UNKNOWN")

	bob.want("POST", r.inbox[1]+"/v1/approvals/"+id+"/approve", "{}", 200, `"state":"approved"`)
	if _, err = invokeAs(t, caller, "carol", `{"n":1}`, "authorization", "Bearer "+r.key, "x-approval-id",
		id); err != nil {
		t.Error(err)
	}
	events := bob.events(r.inbox[0] + "/v1/approvals/events")
	r.issuer.Person(t, map[string]any{"groups": []string{"ops"}})
	root.signIn(r.admin[1])
	calls := ""
	// calls are published some time after their end
	check.Until(t, "carol's call among the calls", func() (bool, string) {
		_, calls = root.ask("GET", r.admin[1]+"/v1/calls", "", "application/json")
		return strings.Contains(calls, `"user":"carol"`) && strings.Contains(calls, "APPROVAL_REQUIRED"), calls
	})
	if strings.Contains(calls, "SESSION_INVALID") {
		t.Error("the inbox of a signed-out person is a call:", calls)
	}
	root.want("GET", r.admin[1]+"/v1/summary", "", 200, `"asked":1},"attention"`)
	root.want("POST", r.admin[1]+"/v1/sessions:revoke", `{"name":"bob, issuer corp"}`, 200, "{}")
	check.Received(t, events, "the end of the events")
	bob.gone(r.inbox[0]+"/v1/approvals", 401)
	bob.gone(r.inbox[1]+"/v1/approvals", 401)
}

// events reads a stream of events until it ends; then the channel is closed.
func (v *visitor) events(address string) <-chan struct{} {
	v.Helper()
	ctx, cancel := context.WithCancel(v.Context())
	v.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	check.Must(v.T, err)
	req.Header.Set("Accept", "text/event-stream")
	if v.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+v.bearer)
	}
	lasting := v.Client
	lasting.Timeout = 0 // its transport bounds each wait
	resp, err := lasting.Do(req)
	check.Must(v.T, err)
	if resp.StatusCode != 200 {
		v.Fatalf("events: %d", resp.StatusCode)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		}
	}()
	return ended
}

// TestKeysOfTheInbox: the holder of a key with the scope approve signs in, and its session ends with the key.
func TestKeysOfTheInbox(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "")
	v := newVisitor(t, r.issuer)
	const next = "/inbox#/acme/apr_x"
	form := func(key string) string { return url.Values{"key": {key}, "next": {next}}.Encode() }
	if resp, text := v.ask("POST", r.inbox[0]+"/signin/key", form(r.key), "text/html"); resp.StatusCode != 403 ||
		!strings.Contains(text, "APPROVER_REQUIRED") {
		t.Errorf("a key without the scope: %d %s", resp.StatusCode, text)
	}
	if resp, text := v.ask("POST", r.inbox[0]+"/signin/key", form(r.approver), "text/html"); resp.StatusCode != 303 ||
		resp.Header.Get("Location") != next {
		t.Fatalf("got %d %s", resp.StatusCode, text)
	}
	v.remember(r.inbox[0])
	v.want("GET", r.inbox[1]+"/v1/approvals", "", 200, "")
	v.want("GET", r.inbox[1]+"/v1/me", "", 200, `"name":"Desk of Acme, key `)
	_, err := invokeAs(t, dial(t, r.public[0]), "carol", `{"n":1}`, "authorization", "Bearer "+r.key)
	v.want("POST", r.inbox[1]+"/v1/approvals/"+clienttest.Metadata(err, "approval")+"/approve", "{}", 200,
		`"answered_by":"Desk of Acme, key `)
	r.issuer.Person(t, map[string]any{"groups": []string{"ops"}})
	root := newVisitor(t, r.issuer)
	root.signIn(r.admin[0])
	root.want("GET", r.admin[0]+"/v1/sessions", "", 200, `"key_name":"Desk of Acme"`)
	if resp, text := v.ask("POST", r.admin[0]+"/signin/key", form(r.approver), "text/html"); resp.StatusCode != 403 ||
		!strings.Contains(text, "ROLE_MISSING") {
		t.Errorf("at the admin port: %d %s", resp.StatusCode, text)
	}
	resp, text := v.ask("POST", r.inbox[0]+"/signin/key", form(r.approver), "application/json")
	if resp.StatusCode != 303 {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
	r.put(t, "{issuer: corp, group: ops, roles: [admin]}", r.ofKey)
	r.p[0].signal(t, syscall.SIGHUP)
	v.gone(r.inbox[0]+"/v1/approvals", 401)
	r.p[0].stop(t)
	for _, secret := range []string{r.approver[20:], v.csrf} {
		if strings.Contains(r.p[0].stderr.String(), secret) {
			t.Error("the log has a secret")
		}
	}
}

// TestStartTokenInABrowser: the link that the gateway prints signs a browser in, and leaves no token in the
// URL.
func TestStartTokenInABrowser(t *testing.T) {
	t.Parallel()
	file := configFile(t, gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr, "")
	p, public, admin := serve(t, []string{"CAPGATE_ADMIN_INSECURE=", "XDG_RUNTIME_DIR=" + t.TempDir()}, "--config",
		file)
	_, token, _ := strings.Cut(p.stderr.String(), "/?token=")
	token, _, _ = strings.Cut(token, "\n")
	jar, err := cookiejar.New(nil)
	check.Must(t, err)
	v := &visitor{T: t, Client: http.Client{Jar: jar, Timeout: check.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	base := "http://" + admin
	if resp, _ := v.navigate(base + "/?token=wrong"); len(resp.Cookies()) != 0 {
		t.Errorf("a wrong token: %d %v", resp.StatusCode, resp.Header)
	}
	v.want("GET", base+"/v1/me", "", 401, "OPERATOR_UNKNOWN")
	if resp, _ := v.navigate(base + "/?token=" + token); resp.StatusCode != 303 || resp.Header.Get("Location") != "/" {
		t.Fatalf("got %d %s", resp.StatusCode, resp.Header.Get("Location"))
	}
	v.remember(base)
	v.want("GET", base+"/v1/me", "", 200, `"name":"start token"`)
	v.want("GET", "http://"+public+"/inbox", "", 404, "INBOX_OFF")
	v.want("POST", base+"/signout", "", 204, "")
	v.want("GET", base+"/v1/me", "", 401, "")
}
