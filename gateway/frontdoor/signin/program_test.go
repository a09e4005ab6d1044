package signin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/testkit/check"
)

// wantedBy has the parameters of a program with a verifier.
func wantedBy(verifier, port string) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	return url.Values{"port": {port}, "state": {"ABCD2345"},
		"challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}}
}

// exchange exchanges a code as a program does, without cookies.
func (p *port) exchange(t *testing.T, code, verifier string) reply {
	t.Helper()
	return p.browser(t).postJSON(p.URL+"/cli/token", fmt.Sprintf(`{"code":%q,"verifier":%q}`, code, verifier))
}

func (b *browser) postJSON(address, body string, header ...string) reply {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, address, strings.NewReader(body))
	check.Must(b, err)
	req.Header.Set("X-Test-Network", b.network)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.Do(req)
	check.Must(b, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.Must(b, err)
	return reply{resp, string(text)}
}

// letIn signs a person in who authorizes a program, and returns the response.
func (p *port) letIn(t *testing.T, b *browser, asked url.Values) reply {
	t.Helper()
	page := b.get(p.URL + "/cli?" + asked.Encode())
	if page.StatusCode != http.StatusOK || !strings.Contains(page.body, asked.Get("state")) ||
		!strings.Contains(page.Header.Get("Content-Security-Policy"),
			"form-action 'self' http://127.0.0.1:"+asked.Get("port")) {
		t.Fatalf("%d %s", page.StatusCode, page.body)
	}
	return b.do(http.MethodPost, p.URL+"/cli", agreed(page, asked))
}

// agreed returns the form with which a person authorizes a program.
func agreed(page reply, asked url.Values) url.Values {
	_, rest, _ := strings.Cut(page.body, `name="csrf_token" value="`)
	csrf, _, _ := strings.Cut(rest, `"`)
	form := url.Values{"csrf_token": {csrf}}
	for name, value := range asked {
		form[name] = value
	}
	return form
}

// TestProgramIsLetIn: a program gets a session of its own by a code, once, with the verifier; the session ends with
// that of the person's rights, and by itself.
func TestProgramIsLetIn(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	asked := wantedBy("the verifier", "4711")
	if first := b.get(p.URL + "/cli?" + asked.Encode()); first.StatusCode != http.StatusSeeOther ||
		!strings.HasPrefix(first.to(), p.URL+"/signin?") && !strings.HasPrefix(first.to(), "/signin?") ||
		!strings.Contains(first.to(), "next=%2Fcli") {
		t.Fatalf("without a session: %d %s", first.StatusCode, first.to())
	}
	b.signIn(p.URL, "/")
	back, err := url.Parse(p.letIn(t, b, asked).to())
	if err != nil || back.Host != "127.0.0.1:4711" || back.Query().Get("state") != "ABCD2345" {
		t.Fatalf("%s %v", back, err)
	}
	code := back.Query().Get("code")
	if r := p.exchange(t, code, "another verifier"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("another verifier: %d %s", r.StatusCode, r.body)
	}
	made := p.exchange(t, code, "the verifier")
	credential := field(t, made.body, "credential")
	s, refusal := p.handler.Program(t.Context(), credential)
	if refusal != nil || s.User != "ann" || !strings.HasPrefix(credential, operator.SessionPrefix) {
		t.Fatalf("%s %v; credential %+v; session %+v", made.body, refusal, credential, s)
	}
	if r := p.exchange(t, code, "the verifier"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("the code twice: %d %s", r.StatusCode, r.body)
	}
	bare := strings.TrimPrefix(credential, operator.SessionPrefix)
	if _, refusal := p.sessions.Open(t.Context(), session.Admin, bare); refusal == nil {
		t.Error("the credential is a cookie")
	}
	for name, cookie := range b.cookies(p.URL) {
		if _, refusal := p.handler.Program(t.Context(), cookie); refusal == nil {
			t.Error("a cookie is a credential:", name)
		}
	}
	if r := b.postJSON(p.URL+"/cli/end", "{}", "Authorization", "Bearer "+credential); r.StatusCode != http.StatusOK {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	p.sessions.Read(t.Context())
	if _, refusal := p.handler.Program(t.Context(), credential); refusal == nil {
		t.Error("the session goes on after its end")
	}
}

// TestProgramIsKeptOut: no code without the session's secret, or to another place than this machine; no session for
// a person whose rights have ended, or after the person's own session was revoked.
func TestProgramIsKeptOut(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	b.signIn(p.URL, "/")
	good := wantedBy("v", "4711")
	if r := b.do(http.MethodPost, p.URL+"/cli", good); r.StatusCode != http.StatusForbidden {
		t.Errorf("without the secret: %d %s", r.StatusCode, r.to())
	}
	for name, value := range map[string]string{"port": "4711@evil.example", "state": "<script>", "challenge": "short"} {
		asked := wantedBy("v", "4711")
		asked.Set(name, value)
		if r := b.get(p.URL + "/cli?" + asked.Encode()); r.StatusCode != http.StatusBadRequest ||
			strings.Contains(r.body, value) {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
		}
	}
	if r := p.letIn(t, b, wantedBy("v", "0")); r.StatusCode != http.StatusOK || r.to() != "" ||
		!strings.Contains(r.body, "Give it to nobody") {
		t.Errorf("without a port: %d %s", r.StatusCode, r.body)
	}
	for _, revoke := range []func(){
		func() { p.people.bar("ann, issuer corp") },
		func() {
			p.people.bar("")
			if refusal := p.sessions.EndAll(t.Context(), "ann, issuer corp"); refusal != nil {
				t.Error(refusal)
			}
			p.sessions.Read(t.Context())
		},
	} {
		back, err := url.Parse(p.letIn(t, b, good).to())
		check.Must(t, err)
		revoke()
		if r := p.exchange(t, back.Query().Get("code"), "v"); r.StatusCode == http.StatusOK {
			t.Error(r.body)
		}
		p.people.bar("")
	}
	b.signIn(p.URL, "/") // the other session was revoked
	page := b.get(p.URL + "/cli?" + good.Encode())
	p.people.bar("ann, issuer corp")
	if r := b.do(http.MethodPost, p.URL+"/cli", agreed(page, good)); r.StatusCode != http.StatusForbidden ||
		r.to() != "" {
		t.Errorf("after the end of the person's rights: %d %s", r.StatusCode, r.to())
	}
	p.people.bar("")
	if inbox := open(t, rig{kind: session.Inbox, mount: "/inbox"}); inbox.browser(t).get(inbox.URL+
		"/inbox/cli?"+good.Encode()).StatusCode != http.StatusNotFound {
		t.Error("the inbox lets programs in")
	}
}

// TestProgramOverTheNetwork: no session of a program goes over a network in cleartext, and its code stays good.
func TestProgramOverTheNetwork(t *testing.T) {
	t.Parallel()
	p := open(t, rig{cleartext: true})
	code := p.code(t, time.Minute)
	for _, test := range []struct {
		host   string
		status int
		has    string
	}{{"gate.example.com", 400, "SIGN_IN_CLEARTEXT"}, {"localhost", 200, "credential"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/cli/token",
			strings.NewReader(fmt.Sprintf(`{"code":%q,"verifier":"v"}`, code)))
		check.Must(t, err)
		req.Host = test.host
		resp, err := p.browser(t).Do(req)
		check.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != test.status || !strings.Contains(string(body), test.has) {
			t.Errorf("%s: %d %s, %v", test.host, resp.StatusCode, body, err)
		}
	}
}

// TestCodesAreCounted: a client that tries too many codes has to wait, also with a good one.
func TestCodesAreCounted(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	try := func(code string) int {
		return b.postJSON(p.URL+"/cli/token", fmt.Sprintf(`{"code":%q,"verifier":"v"}`, code)).StatusCode
	}
	for n := 0; try("wrong") != http.StatusTooManyRequests; n++ {
		if n > 1000 {
			t.Fatal("there is no bound")
		}
	}
	if got := try(p.code(t, time.Minute)); got != http.StatusTooManyRequests {
		t.Errorf("a good code: %d", got)
	}
}

// code returns a code for the verifier v, until its end.
func (p *port) code(t *testing.T, until time.Duration) string {
	t.Helper()
	of := session.Session{Via: session.ViaPerson, User: "ann", Issuer: "corp", ID: session.NewID(),
		Issued: time.Now(), Expires: time.Now().Add(time.Hour)}
	code, refusal := p.sessions.Seal(t.Context(), "program", map[string]any{"id": of.ID, "session": of,
		"challenge": wantedBy("v", "0").Get("challenge"), "until": time.Now().Add(until)})
	if refusal != nil {
		t.Fatal(refusal)
	}
	return code
}

// TestCodeEnds: a code is good until its end.
func TestCodeEnds(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	for until, want := range map[time.Duration]int{time.Minute: http.StatusOK, -time.Second: http.StatusBadRequest} {
		if r := p.exchange(t, p.code(t, until), "v"); r.StatusCode != want {
			t.Errorf("%s from its end: %d %s", until, r.StatusCode, r.body)
		}
	}
}
