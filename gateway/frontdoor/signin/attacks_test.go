package signin_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestForgedAnswers: an answer of the issuer begins a session only in the browser that has asked for it, and once.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	begun := func(b *browser) (back *url.URL) {
		out := b.get(p.URL + "/signin/oidc/corp")
		back, err := url.Parse(b.get(out.to()).to())
		check.Must(t, err)
		return back
	}
	with := func(u *url.URL, name string, values ...string) string {
		v, q := *u, u.Query()
		q.Del(name)
		for _, value := range values {
			q.Add(name, value)
		}
		v.RawQuery = q.Encode()
		return v.String()
	}
	for name, forge := range map[string]func(b *browser) string{
		"another state": func(b *browser) string { return with(begun(b), "state", "x") },
		"no state":      func(b *browser) string { return with(begun(b), "state") },
		"two states": func(b *browser) string {
			u := begun(b)
			return with(u, "state", u.Query().Get("state"), "x")
		},
		"another code": func(b *browser) string { return with(begun(b), "code", "x") },
		"no code":      func(b *browser) string { return with(begun(b), "code") },
		"two codes": func(b *browser) string {
			u := begun(b)
			return with(u, "code", u.Query().Get("code"), "x")
		},
		"another issuer":  func(b *browser) string { return with(begun(b), "iss", "https://other.example.com") },
		"no issuer":       func(b *browser) string { return with(begun(b), "iss") },
		"two issuers":     func(b *browser) string { return with(begun(b), "iss", p.issuer.URL, p.issuer.URL) },
		"no sign-in":      func(*browser) string { return p.URL + "/signin/callback?code=x&state=y" },
		"another browser": func(*browser) string { return begun(p.browser(t)).String() },
		"another one's, who has begun as well": func(b *browser) string { // login CSRF
			begun(b)
			return begun(p.browser(t)).String()
		},
		"an error with markup": func(b *browser) string { return with(begun(b), "error", "<script>alert(1)</script>") },
		"the cookie of another sign-in": func(b *browser) string {
			first := begun(b)
			b.get(p.URL + "/signin/oidc/corp")
			return first.String()
		},
		"a changed cookie": func(b *browser) string {
			back := begun(b)
			value := b.cookies(p.URL)["__Host-capgate-login"]
			b.setCookie(p.URL, "__Host-capgate-login", value[:len(value)-2]+"AA")
			return back.String()
		},
		"a session for a sign-in": func(b *browser) string {
			back, other := begun(b), p.browser(t)
			other.signIn(p.URL, "/")
			b.setCookie(p.URL, "__Host-capgate-login", other.cookies(p.URL)["__Host-capgate"])
			return back.String()
		},
	} {
		b := p.browser(t)
		address := forge(b)
		r := b.get(address)
		if me := b.me(p.URL); r.StatusCode != 403 || !strings.Contains(r.body, "SIGN_IN_FAILED") ||
			strings.Contains(r.body, "<script") || me != "SESSION_INVALID" {
			t.Errorf("%s: %d %s; then %s", name, r.StatusCode, r.body, me)
		}
	}
	for name, change := range map[string]func(l map[string]any){
		"an answer that comes too late": func(l map[string]any) {
			l["At"] = time.Now().Add(-10*time.Minute - time.Second)
		},
		"a sign-in as another client": func(l map[string]any) { l["Client"] = "former" },
	} {
		b := p.browser(t)
		back := begun(b)
		p.changeLogin(t, b, change)
		if r := b.get(back.String()); r.StatusCode != 403 || b.me(p.URL) != "SESSION_INVALID" {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
		}
	}
	b := p.browser(t)
	back := begun(b)
	login := b.cookies(p.URL)["__Host-capgate-login"]
	if r := b.get(back.String()); r.StatusCode != 303 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	thief := p.browser(t)
	thief.setCookie(p.URL, "__Host-capgate-login", login)
	if r := thief.get(back.String()); r.StatusCode != 403 {
		t.Errorf("the answer again, with a copy of the cookie: %d", r.StatusCode)
	}
	if me := thief.me(p.URL); me != "SESSION_INVALID" {
		t.Errorf("the thief is %s", me)
	}
}

// changeLogin changes the started sign-in in a browser's cookie.
func (p *port) changeLogin(t *testing.T, b *browser, change func(l map[string]any)) {
	t.Helper()
	const name, purpose = "__Host-capgate-login", "login admin"
	var l map[string]any
	check.Must(t, p.sessions.Unseal(t.Context(), purpose, b.cookies(p.URL)[name], &l))
	change(l)
	sealed, refusal := p.sessions.Seal(t.Context(), purpose, l)
	if refusal != nil {
		t.Fatal(refusal)
	}
	b.setCookie(p.URL, name, sealed)
}

// TestFailuresTakeNoPlaces: failed sign-ins, more than may use the issuer at once, keep no other person from signing
// in.
func TestFailuresTakeNoPlaces(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	b.get(p.URL + "/signin/oidc/corp")
	p.issuer.Stop(t)
	for n := range 40 {
		state := fmt.Sprint("state-", n)
		p.changeLogin(t, b, func(l map[string]any) { l["State"] = state })
		sealed := b.cookies(p.URL)["__Host-capgate-login"]
		r := b.get(p.URL + "/signin/callback?code=x&iss=" + url.QueryEscape(p.issuer.URL) + "&state=" + state)
		if r.StatusCode != 403 {
			t.Fatalf("sign-in %d: %d %s", n, r.StatusCode, r.body)
		}
		b.setCookie(p.URL, "__Host-capgate-login", sealed)
	}
}

// TestWrongTokens: tokens of the issuer for another person or another audience start no session, and are not shown.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"wrong nonce", "wrong audience", "wrong signature", "iss of another", "missing iss",
		"expired", "denied"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := open(t, rig{behave: how})
			b := p.browser(t)
			if r := b.signIn(p.URL, "/"); r.StatusCode != 403 || strings.Contains(r.body, "canary") {
				t.Errorf("%d %s", r.StatusCode, r.body)
			}
			if me := b.me(p.URL); me != "SESSION_INVALID" {
				t.Errorf("the browser is signed in as %s", me)
			}
		})
	}
	p := open(t, rig{})
	p.issuer.Stop(t)
	if r := p.browser(t).get(p.URL + "/signin/oidc/corp"); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" ||
		!strings.Contains(r.body, "not available") {
		t.Errorf("away: %d %s", r.StatusCode, r.body)
	}
}

// TestOpenRedirect: a sign-in leads to no other host, whatever the link says.
func TestOpenRedirect(t *testing.T) {
	t.Parallel()
	p := open(t, rig{kind: session.Inbox, mount: "/inbox"})
	b := p.browser(t)
	for next, want := range map[string]string{
		"/inbox": "/inbox", "/inbox/x?y=%2F%2Fevil": "/inbox/x?y=%2F%2Fevil", "/inbox#/acme/1": "/inbox#/acme/1",
		"//evil.example": "", "///evil.example": "", `/\evil.example`: "", `\/evil.example`: "",
		"https://evil.example": "", "https:evil.example": "", "javascript:alert(1)": "", "evil.example": "", "": "",
		"/": "", "/other": "", "/inboxes": "", "/inbox/../other": "", "/inbox/%2e%2e/other": "", "/\t/evil.example": "",
		"/inbox\n/x": "", "/inbox/\x00": "", "/%09/evil.example": "", "/%5cevil.example": "", "/inbox//x": "/inbox//x",
		" /inbox": "", "/inbox/ x": "", "/inbox/signin": "", "/inbox/signout": "",
		"/inbox/\u202ex": "/inbox/%E2%80%AEx", "/inbox/" + strings.Repeat("x", 2000): "",
		"http://evil.example/inbox": "", "//evil.example/inbox": "", "/inbox@evil.example": "", "/inbox/%zz": "",
	} {
		if want == "" {
			want = "/inbox/"
		}
		r := b.do(http.MethodPost, p.URL+"/inbox/signin/key", url.Values{"key": {goodKey}, "next": {next}},
			"X-Test-Network", url.QueryEscape(next))
		if r.StatusCode != 303 || r.to() != want {
			t.Errorf("%q: %d %q, want %q", next, r.StatusCode, r.to(), want)
		}
	}
	if r := b.signIn(p.URL+"/inbox", "//evil.example"); r.to() != "/inbox/" {
		t.Errorf("by the issuer: %s", r.to())
	}
}

// TestFixation: a client that has set a browser's cookie does not get its session: each sign-in creates a new session
// and ends the other.
func TestFixation(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	attacker, victim := p.browser(t), p.browser(t)
	attacker.do(http.MethodPost, p.URL+"/signin/key", url.Values{"key": {goodKey}})
	planted := attacker.cookies(p.URL)["__Host-capgate"]
	victim.setCookie(p.URL, "__Host-capgate", planted)
	victim.signIn(p.URL, "/")
	if victim.cookies(p.URL)["__Host-capgate"] == planted {
		t.Error("the victim keeps the attacker's session")
	}
	if me := victim.me(p.URL); me != annOfCorp {
		t.Errorf("the victim is signed in as %s", me)
	}
	if got := attacker.me(p.URL); got != "SESSION_INVALID" {
		t.Errorf("the planted session goes on: %s", got)
	}
	garbage := p.browser(t)
	garbage.setCookie(p.URL, "__Host-capgate", "chosen-by-somebody")
	if garbage.signIn(p.URL, "/"); garbage.me(p.URL) != annOfCorp {
		t.Error("a cookie that is none keeps a person from signing in")
	}
}

// TestCSRF: effects need the secret of the session, and no page of another site has them.
func TestCSRF(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b, other := p.browser(t), p.browser(t)
	b.signIn(p.URL, "/")
	other.signIn(p.URL, "/")
	token, foreign := field(t, b.get(p.URL+"/v1/me").body, "csrf_token"),
		field(t, other.get(p.URL+"/v1/me").body, "csrf_token")
	for name, test := range map[string]struct {
		headers []string
		status  int
		says    string
	}{
		"the secret":          {[]string{"X-CSRF-Token", token}, 200, annOfCorp},
		"none":                {nil, 401, "CSRF_TOKEN_MISSING"},
		"empty":               {[]string{"X-CSRF-Token", ""}, 401, "CSRF_TOKEN_MISSING"},
		"another session's":   {[]string{"X-CSRF-Token", foreign}, 401, "CSRF_TOKEN_MISSING"},
		"from another origin": {[]string{"X-CSRF-Token", token, "Origin", "https://evil.example"}, 403, ""},
		"from another site":   {[]string{"X-CSRF-Token", token, "Sec-Fetch-Site", "cross-site"}, 403, ""},
		"from a sibling":      {[]string{"X-CSRF-Token", token, "Sec-Fetch-Site", "same-site"}, 403, ""},
		"from nowhere":        {[]string{"X-CSRF-Token", token, "Origin", "null"}, 403, ""},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if r := b.do(method, p.URL+"/v1/me", nil, test.headers...); r.StatusCode != test.status ||
				!strings.Contains(r.body, test.says) {
				t.Errorf("%s, %s: %d %s", method, name, r.StatusCode, r.body)
			}
		}
	}
	for _, path := range []string{"/signin/key", "/signout"} {
		if r := b.do(http.MethodPost, p.URL+path, url.Values{"key": {goodKey}, "csrf_token": {token}}, "Sec-Fetch-Site",
			"cross-site"); r.StatusCode != 403 || len(r.Cookies()) != 0 {
			t.Errorf("%s from another site: %d", path, r.StatusCode)
		}
	}
}

// TestCookiesOfOthers: a cookie of another port, of another gateway, of two values or of any size is no session.
func TestCookiesOfOthers(t *testing.T) {
	t.Parallel()
	sessions := session.New(gatewaytest.OpenStore(t, "embedded").People(), session.Options{})
	admin := open(t, rig{sessions: sessions})
	inbox := open(t, rig{kind: session.Inbox, mount: "/inbox", sessions: sessions, issuer: admin.issuer})
	foreign := open(t, rig{issuer: admin.issuer})
	a, i, f := admin.browser(t), inbox.browser(t), foreign.browser(t)
	a.signIn(admin.URL, "/")
	i.signIn(inbox.URL+"/inbox", "/inbox/")
	f.signIn(foreign.URL, "/")
	ofAdmin, ofInbox := a.cookies(admin.URL)["__Host-capgate"], i.cookies(inbox.URL)["__Host-capgate-inbox"]
	ofForeign := f.cookies(foreign.URL)["__Host-capgate"]
	if ofAdmin == "" || ofInbox == "" || ofForeign == "" {
		t.Fatalf("no cookies; ofAdmin %+v; ofInbox %+v; ofForeign %+v", ofAdmin, ofInbox, ofForeign)
	}
	try := func(p *port, mount, cookie string) string {
		r := p.browser(t).get(p.URL+mount+"/v1/me", "Cookie", cookie)
		return strings.TrimSpace(r.body)
	}
	for name, got := range map[string]string{
		"the admin port's at the inbox":                try(inbox, "/inbox", "__Host-capgate-inbox="+ofAdmin),
		"the admin port's at the inbox, by its name":   try(inbox, "/inbox", "__Host-capgate="+ofAdmin),
		"the inbox's at the admin port":                try(admin, "", "__Host-capgate="+ofInbox),
		"another gateway's":                            try(admin, "", "__Host-capgate="+ofForeign),
		"two":                                          try(admin, "", "__Host-capgate="+ofAdmin+"; __Host-capgate=x"),
		"two, the other way":                           try(admin, "", "__Host-capgate=x; __Host-capgate="+ofAdmin),
		"without the prefix, as another host sets one": try(admin, "", "capgate="+ofAdmin),
		"huge":   try(admin, "", "__Host-capgate="+strings.Repeat("A", 64<<10)),
		"a part": try(admin, "", "__Host-capgate="+ofAdmin[:40]),
	} {
		if got != "SESSION_INVALID" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := try(admin, "", "other=x; __Host-capgate="+ofAdmin); !strings.Contains(got, annOfCorp) {
		t.Errorf("the right one: %s", got)
	}
}

// TestKeysRotate: sessions under the former key go on until the file has it no more.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	secret := sharedkey.New(nil, nil)
	p := open(t, rig{sessions: session.New(gatewaytest.OpenStore(t, "embedded").People(),
		session.Options{Keys: secret.Keys("sessions")})})
	first, second := bytes.Repeat([]byte{1}, sharedkey.Bytes), bytes.Repeat([]byte{2}, sharedkey.Bytes)
	b := p.browser(t)
	for n, step := range []struct {
		keys [][]byte
		want string
	}{{[][]byte{first}, annOfCorp}, {[][]byte{second, first}, annOfCorp}, {[][]byte{second}, "SESSION_INVALID"}} {
		secret.Replace(step.keys)
		if n == 0 {
			b.signIn(p.URL, "/")
		}
		if got := b.me(p.URL); got != step.want {
			t.Errorf("step %d: %s", n, got)
		}
	}
}

// TestLimit: a client that tries too often has to wait, and no other client has to.
func TestLimit(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	var r reply
	for n := 0; r.Response == nil || r.StatusCode == 401; n++ {
		if r = b.do(http.MethodPost, p.URL+"/signin/key", url.Values{"key": {"wrong"}}); n > 1000 {
			t.Fatal("there is no bound")
		}
	}
	if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" || !strings.Contains(r.body, "SIGN_IN_LIMITED") {
		t.Errorf("%d %v %s", r.StatusCode, r.Header, r.body)
	}
	if r = b.do(http.MethodPost, p.URL+"/signin/key", url.Values{"key": {goodKey}}); r.StatusCode != 429 {
		t.Errorf("the right key: %d", r.StatusCode)
	}
	if r = b.get(p.URL + "/signin/oidc/corp"); r.StatusCode != 429 {
		t.Errorf("the issuer: %d", r.StatusCode)
	}
	if code := signInSlowly(t, p, b.network); code != 429 {
		t.Errorf("a form that does not come: %d", code)
	}
	b.network = "10.0.0.2"
	if r = b.do(http.MethodPost, p.URL+"/signin/key", url.Values{"key": {goodKey}}); r.StatusCode != 303 {
		t.Errorf("another client: %d", r.StatusCode)
	}
}

// signInSlowly sends a form that never arrives, and returns the status of the response.
func signInSlowly(t *testing.T, p *port, network string) int {
	t.Helper()
	form, end := io.Pipe()
	check.Cleanup(t, func() { _ = end.Close() })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/signin/key", form)
	check.Must(t, err)
	req.Header.Set("X-Test-Network", network)
	resp, err := p.Client().Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestRevokedElsewhere: a session that one replica revokes ends at the other one.
func TestRevokedElsewhere(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	shared := func() *session.Manager {
		return session.New(store.People(), session.Options{Keys: sharedkey.New(store.Secret(), nil).Keys("sessions")})
	}
	one := open(t, rig{sessions: shared()})
	two := open(t, rig{sessions: shared(), issuer: one.issuer})
	b := one.browser(t)
	b.signIn(one.URL, "/")
	cookie := "__Host-capgate=" + b.cookies(one.URL)["__Host-capgate"]
	there := two.browser(t)
	if r := there.get(two.URL+"/v1/me", "Cookie", cookie); r.StatusCode != 200 {
		t.Fatalf("the other replica: %d %s", r.StatusCode, r.body)
	}
	if refusal := one.sessions.EndAll(t.Context(), annOfCorp); refusal != nil {
		t.Fatal(refusal)
	}
	two.sessions.Read(t.Context())
	if r := there.get(two.URL+"/v1/me", "Cookie", cookie); r.StatusCode != 401 {
		t.Errorf("the other replica: %d %s", r.StatusCode, r.body)
	}
}
