package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// consolePeople: people with sessions at two gateways. They run one after another, since an issuer signs in one
// person at a time.
func consolePeople(t *testing.T, b *browsertest.Browser) {
	hook, posts := channels(t)
	secret := filepath.Join(t.TempDir(), "secret")
	check.Must(t, os.WriteFile(secret, []byte("a secret of a webhook, which is long\n"), 0o600))
	r := startPeople(t, fmt.Sprintf("approvals: {notices: [{name: webhook, url: '%s/hook', secret_file: %s}]}", hook,
		secret))
	t.Run("Phone", func(t *testing.T) { approvesOnAPhone(t, b, r, posts) })
	t.Run("Revoked", func(t *testing.T) { losesItsSession(t, b, r) })
	t.Run("Login", func(t *testing.T) { letsAProgramIn(t, b, r) })
}

// consoleRoles: further people, at gateways of their own.
func consoleRoles(t *testing.T, b *browsertest.Browser) {
	r := startPeople(t, "")
	t.Run("Attacks", func(t *testing.T) { withstandsOtherSites(t, b, r) })
	t.Run("Tenants", func(t *testing.T) { approvesForTwoTenants(t, b, r) })
	t.Run("Roles", func(t *testing.T) { seesItsRoles(t, b, r) })
}

// approvesOnAPhone: a call waits; the link in its notice leads a person through the sign-in to this approval,
// and the call gets its result.
func approvesOnAPhone(t *testing.T, b *browsertest.Browser, r *peopleRig, posts <-chan channelPost) {
	r.more += "\npublic_url: http://" + r.public[0]
	r.put(t, "{issuer: corp, group: ops, roles: [admin]}", r.keys)
	for _, p := range r.p {
		p.stderr.wait(t, p, `"msg":"configuration loaded"`)
	}
	answer := make(chan string, 1)
	go func() { // ends with the test
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+r.public[0]+"/v1/capabilities/caps/invoke",
			strings.NewReader(`{"tool_name":"echo","args":{"to":"a@example.com","password":"hunter2hunter2"}}`))
		if err == nil {
			req.Header = http.Header{"Authorization": {"Bearer " + r.key}, "X-User-Id": {"carol"},
				"Prefer": {"wait=60"}, "Content-Type": {"application/json"}}
			var resp *http.Response
			if resp, err = clienttest.HTTP.Do(req); err == nil {
				text, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				answer <- fmt.Sprint(resp.StatusCode, " ", string(text))
				return
			}
		}
		answer <- err.Error()
	}()
	var notice webhookRequest
	check.Must(t, json.Unmarshal([]byte(check.Received(t, posts, "the notice").body), &notice.body))
	link, id := notice.body.Data.Link, notice.body.Data.ID
	if link != r.inbox[0]+"#/acme/"+id {
		t.Fatalf("the link of %s is %s", id, link)
	}
	r.issuer.Person(t, map[string]any{"sub": "bob", "scope": "approve read"})
	var saw struct {
		First, Address, Card, Outcome string
		Others                        int
		Found                         []string
	}
	b.Run(t, "phone", seen{"origins": []string{"http://" + r.public[0], r.issuer.URL}, "link": link}, &saw)
	if saw.Address != link || !strings.HasPrefix(saw.First, "/inbox/signin?next="+
		url.QueryEscape("/inbox#/acme/"+id)) || !strings.Contains(saw.Card, "carol") ||
		!strings.Contains(saw.Card, "a@example.com") || strings.Contains(saw.Card, "hunter2") ||
		!strings.Contains(saw.Outcome, "Approved and used by bob") || saw.Others != 0 || len(saw.Found) > 0 {
		t.Errorf("got %+v", saw)
	}
	if got := check.Received(t, answer, "the result"); !strings.HasPrefix(got, "200 ") ||
		!strings.Contains(got, "hunter2hunter2") {
		t.Error("the call:", got)
	}
}

// losesItsSession: when sessions end while their pages are open, the pages say so and lead to the sign-in and
// back.
func losesItsSession(t *testing.T, b *browsertest.Browser, r *peopleRig) {
	var saw []struct {
		Page, Signin, Said, Back, Old string
		Status                        []int
	}
	b.Run(t, "revoked", seen{"origins": []string{r.admin[0], "http://" + r.public[0], r.issuer.URL}}, &saw)
	if len(saw) != 2 {
		t.Fatalf("got %+v", saw)
	}
	for _, s := range saw {
		mount := strings.TrimSuffix(strings.TrimSuffix(s.Page[:strings.IndexByte(s.Page, '#')], "/"), "/")
		if s.Signin != mount+"/signin?next="+strings.ReplaceAll(url.QueryEscape(s.Page), "+", "%20")+"&ended=1" ||
			!strings.HasPrefix(s.Said, "Your session has ended.") || s.Back != s.Page ||
			!strings.HasPrefix(s.Old, mount+"/signin?") {
			t.Errorf("got %+v", s)
		}
		if slices.ContainsFunc(s.Status, func(status int) bool { return status != http.StatusUnauthorized }) {
			t.Errorf("%s: routes that need the session returned %v", s.Page, s.Status)
		}
	}
}

// letsAProgramIn: capgate login prints a URL. A person signs in there, compares the words and permits it, on
// this machine and on another; then the command works until capgate logout.
func letsAProgramIn(t *testing.T, b *browsertest.Browser, r *peopleRig) {
	r.issuer.Person(t, map[string]any{"groups": []string{"ops"}})
	env := func() []string {
		return []string{"XDG_RUNTIME_DIR=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DISPLAY=",
			"WAYLAND_DISPLAY="}
	}
	here, elsewhere := env(), env()
	p := start(t, here, "login", "--admin", r.admin[0])
	cmd := selfCommand(t, "capgate", elsewhere, "login", "--admin", r.admin[0], "--no-browser")
	typed, err := cmd.StdinPipe()
	check.Must(t, err)
	remote := launch(t, cmd)
	address, far := loginAddress(t, p), loginAddress(t, remote)
	at, err := url.Parse(address)
	check.Must(t, err)
	receiver := "http://127.0.0.1:" + at.Query().Get("port")
	var saw struct {
		Asked, Answer, Code string
		Found               []string
	}
	b.Run(t, "login", seen{"origins": []string{r.admin[0], r.issuer.URL, receiver}, "address": address,
		"remote": far}, &saw)
	if !strings.Contains(saw.Asked, "ann, issuer corp") || !strings.Contains(saw.Asked, at.Query().Get("state")) ||
		!strings.Contains(saw.Answer, "Return to the terminal") || len(saw.Found) > 0 {
		t.Errorf("got %+v", saw)
	}
	check.Must(t, err)
	_, err = io.WriteString(typed, saw.Code+"\n")
	check.Must(t, err)
	for _, one := range []struct {
		*program
		env []string
	}{{p, here}, {remote, elsewhere}} {
		if exit := one.wait(t); exit != 0 || !strings.Contains(one.stdout.String(), " as ann, issuer corp: admin") {
			t.Fatal(exit, one.stdout, one.stderr)
		}
		worksUntilLogout(t, r, one.env)
	}
}

func worksUntilLogout(t *testing.T, r *peopleRig, env []string) {
	t.Helper()
	if exit, stdout, stderr := runProgram(t, env, "policy", "list", "--admin", r.admin[1]); exit != exitRefused {
		t.Errorf("at another address: %d %s%s", exit, stdout, stderr)
	}
	if exit, stdout, stderr := runProgram(t, env, "status", "--admin", r.admin[0]); exit != 0 {
		t.Errorf("%d %s%s", exit, stdout, stderr)
	}
	stored, err := loadCredentialsIn(strings.TrimPrefix(env[1], "XDG_CONFIG_HOME="))
	check.Must(t, err)
	if exit, stdout, stderr := runProgram(t, env, "logout", "--admin", r.admin[0]); exit != 0 || stderr != "" {
		t.Error(exit, stdout, stderr)
	}
	if status, text := request(t.Context(), t, "GET", r.admin[0]+"/v1/me", stored); status != http.StatusUnauthorized {
		t.Errorf("the session is still valid: %d %s", status, text)
	}
	if exit, stdout, _ := runProgram(t, env, "status", "--admin", r.admin[0]); exit != exitRefused {
		t.Error("the command still works:", stdout)
	}
}

// withstandsOtherSites: a person with sessions at both ports visits a page of an attacker, which frames pages,
// sends requests and forms, reads responses, and has a name for the gateway's own address. A sign-in leads to
// no other host.
func withstandsOtherSites(t *testing.T, b *browsertest.Browser, r *peopleRig) {
	id := r.asked(t, r.key)
	attacker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>An attacker</title>")
	}))
	t.Cleanup(attacker.Close)
	named := func(address string) string {
		return "http://www.attacker.example" + address[strings.LastIndexByte(address, ':'):]
	}
	var saw struct {
		Framed, Loaded []string
		Sent           map[string]int
		Read, Next     []string
		Named          []int
		State          string
	}
	b.Run(t, "attacks", seen{"origins": []string{r.admin[0], "http://" + r.public[0], r.issuer.URL, named(attacker.URL),
		named(r.admin[0]), named(r.public[0])}, "id": id,
		"expected": []string{"CORS policy", "frame-ancestors", "Refused to display", "Framing"}}, &saw)
	if len(saw.Framed) != 1 || saw.Framed[0] != named(attacker.URL)+"/" || len(saw.Loaded) < 8 { // only its own
		t.Errorf("of %q, these are framed: %q", saw.Loaded, saw.Framed)
	}
	for request, status := range saw.Sent {
		if status != http.StatusForbidden {
			t.Errorf("%s: %d", request, status)
		}
	}
	if len(saw.Sent) < 6 || len(saw.Read) > 0 || saw.State != "pending" {
		t.Errorf("got %+v", saw)
	}
	status, text := request(t.Context(), t, "POST", "http://"+r.public[0]+"/v1/approvals/"+id+"/deny", r.approver)
	if status != http.StatusOK {
		t.Error(status, text) // it would wait in the inbox of other tests
	}
	if fmt.Sprint(saw.Named) != "[421 421 421]" {
		t.Errorf("by the attacker's name: %v", saw.Named)
	}
	for _, to := range saw.Next {
		if !strings.HasPrefix(to, r.inbox[0]) && !strings.HasPrefix(to, r.admin[0]+"/") {
			t.Errorf("a sign-in leads to %s", to)
		}
	}
}

// consolePages: pages outside the console's screens, in all their states, and with people of hostile names.
func consolePages(t *testing.T, b *browsertest.Browser) {
	r := startPeople(t, "")
	text := read(t, "console/testdata/hostile.json")
	var table [][2]string
	check.Must(t, json.Unmarshal([]byte(text), &table))
	var names []string
	for _, row := range table {
		// those that are names
		if slices.Contains([]string{"script", "javascript", "foreign", "names", "rtl"}, row[0]) {
			names = append(names, row[1])
		}
	}
	if len(names) != 5 {
		t.Fatalf("got %q", names)
	}
	var found []string
	b.Run(t, "pages", seen{"origins": []string{r.admin[1], "http://" + r.public[1], r.issuer.URL}, "names": names},
		&found)
	for _, f := range found {
		t.Error(f)
	}
}
