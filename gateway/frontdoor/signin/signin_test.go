package signin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// field returns a text of a JSON object.
func field(t *testing.T, body, name string) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	text, _ := all[name].(string)
	return text
}

const annOfCorp = "ann, issuer corp"

// TestSignIn: a person goes to the issuer and back, has a session, and ends it, over TLS and at localhost.
func TestSignIn(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]rig{
		"admin": {}, "admin, cleartext": {cleartext: true},
		"inbox": {kind: session.Inbox, mount: "/inbox"}, "inbox, cleartext": {kind: session.Inbox, mount: "/inbox",
			cleartext: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, r)
			p.issuer.Person(t, map[string]any{"groups": []string{"ops"}})
			base, b := p.URL+r.mount, p.browser(t)
			if out := b.get(base + "/"); out.StatusCode != 303 ||
				!strings.HasPrefix(out.to(), r.mount+"/signin?next=") {
				t.Fatalf("%d %s", out.StatusCode, out.to())
			}
			page := b.get(base + "/signin?next=" + r.mount + "/x")
			if page.StatusCode != 200 || !strings.Contains(page.body, "corp") ||
				strings.Contains(page.body, "<script") || !strings.Contains(page.Header.Get("Content-Security-Policy"),
				"frame-ancestors 'none'") || !strings.Contains(page.body, `name="viewport"`) {
				t.Errorf("%d %v %s", page.StatusCode, page.Header, page.body)
			}
			if got := b.me(base); got != "SESSION_INVALID" {
				t.Errorf("before: %s", got)
			}
			if done := b.signIn(base, r.mount+"/x?y=1#/z"); done.StatusCode != 303 || done.to() != r.mount+"/x?y=1#/z" {
				t.Fatalf("%d %s %s", done.StatusCode, done.to(), done.body)
			}
			cookie := "capgate" + strings.ReplaceAll(r.mount, "/", "-")
			if !r.cleartext {
				cookie = "__Host-" + cookie
			}
			if got := names(b.cookies(base)); !slices.Equal(got, []string{cookie}) {
				t.Errorf("cookies %v", got)
			}
			me := b.get(base + "/v1/me")
			if field(t, me.body, "name") != annOfCorp || !strings.Contains(me.body, `"groups":["ops"]`) {
				t.Errorf("%s", me.body)
			}
			if page = b.get(base + "/signin"); !strings.Contains(page.body, "signed in as") {
				t.Errorf("%s", page.body)
			}
			kept := b.cookies(base)[cookie]
			if out := b.do(http.MethodPost, base+"/signout",
				url.Values{"csrf_token": {"wrong"}}); out.StatusCode != 403 {
				t.Errorf("signed out without the secret: %d", out.StatusCode)
			}
			out := b.do(http.MethodPost, base+"/signout", url.Values{"csrf_token": {field(t, me.body, "csrf_token")}})
			if out.StatusCode != 303 || len(b.cookies(base)) != 0 {
				t.Errorf("%d, %v", out.StatusCode, b.cookies(base))
			}
			b.setCookie(base, cookie, kept)
			if got := b.me(base); got != "SESSION_INVALID" {
				t.Errorf("a copy of the cookie after the sign-out: %s", got)
			}
		})
	}
}

// unrevoking is a store that stores no revocation while it is away.
type unrevoking struct {
	session.Store
	away atomic.Bool
}

func (u *unrevoking) Revoke(ctx context.Context, all []session.Revocation) error {
	if u.away.Load() {
		return errors.New("away")
	}
	return u.Store.Revoke(ctx, all)
}

// TestSignOutsAreRecordedOnceTheyHold: a sign-out that was not stored is an error, and no record says that it was done.
func TestSignOutsAreRecordedOnceTheyHold(t *testing.T) {
	t.Parallel()
	store := &unrevoking{Store: gatewaytest.OpenStore(t, "embedded").People()}
	for _, away := range []bool{true, false} {
		log := gatewaytest.NewLog()
		p := open(t, rig{sessions: session.New(store, session.Options{}), log: log})
		b := p.browser(t)
		b.signIn(p.URL, "/")
		csrf := field(t, b.get(p.URL+"/v1/me").body, "csrf_token")
		store.away.Store(away)
		out := b.do(http.MethodPost, p.URL+"/signout", url.Values{"csrf_token": {csrf}})
		store.away.Store(false)
		if (out.StatusCode < 400) == away {
			t.Errorf("away %v: %d %s", away, out.StatusCode, out.body)
		}
		if recorded := strings.Contains(log.String(), "session.signed_out"); recorded == away {
			t.Errorf("away %v: the log is %s", away, log)
		}
	}
}

// TestCookieAttributes: no script reads a session, and no other site or host sets or sends it with effects.
func TestCookieAttributes(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	out := b.get(p.URL + "/signin/oidc/corp")
	back := b.get(b.get(out.to()).to())
	for _, r := range []reply{out, back} {
		for _, c := range r.Cookies() {
			if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" ||
				!strings.HasPrefix(c.Name, "__Host-") {
				t.Errorf("%+v", c)
			}
		}
	}
	if n := len(out.Cookies()); n != 1 || out.Cookies()[0].MaxAge > 600 {
		t.Errorf("%v; n %+v", out.Cookies(), n)
	}
}

// TestFormTakesAKey: the form takes a key, and says what is wrong with another.
func TestFormTakesAKey(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	wrong := b.do(http.MethodPost, p.URL+"/signin/key", url.Values{"key": {"cg_secret-canary"}, "next": {"/x"}})
	if wrong.StatusCode != 401 || !strings.Contains(wrong.body, "the key is wrong") ||
		strings.Contains(wrong.body, "canary") || !strings.Contains(wrong.body, `value="/x"`) ||
		len(b.cookies(p.URL)) != 0 {
		t.Errorf("%d %s; cookies %v", wrong.StatusCode, wrong.body, b.cookies(p.URL))
	}
	good := b.do(http.MethodPost, p.URL+"/signin/key", url.Values{"key": {goodKey}, "next": {"/x"}})
	if me := b.me(p.URL); good.StatusCode != 303 || good.to() != "/x" || me != "key aaaa" {
		t.Errorf("%d %s; then %s", good.StatusCode, good.to(), me)
	}
	b.html = false
	if r := b.do(http.MethodPost, p.URL+"/signin/key", url.Values{"key": {"x"}}); r.StatusCode != 401 ||
		r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	if r := b.do(http.MethodPost, p.URL+"/signin/key", url.Values{"key": {strings.Repeat("k",
		1<<20)}}); r.StatusCode != 400 {
		t.Errorf("a huge form: %d", r.StatusCode)
	}
}

// TestNoRole: a person without a role gets no session, and a person who loses the role loses the session.
func TestNoRole(t *testing.T) {
	t.Parallel()
	p := open(t, rig{})
	b := p.browser(t)
	p.issuer.Person(t, map[string]any{"sub": "eve"})
	if r := b.signIn(p.URL, "/"); r.StatusCode != 403 || !strings.Contains(r.body, "ROLE_MISSING") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if got := b.cookies(p.URL); len(got) != 0 {
		t.Errorf("%v", got)
	}
	p.issuer.Person(t, map[string]any{})
	b.signIn(p.URL, "/")
	if got := b.me(p.URL); got != annOfCorp {
		t.Fatal(got)
	}
	p.people.bar(annOfCorp)
	if got := b.me(p.URL); got != "ROLE_MISSING" {
		t.Error(got)
	}
}

// TestConfiguredURL: a browser that uses another name is redirected to the configured one, whose path prefixes all
// others.
func TestConfiguredURL(t *testing.T) {
	t.Parallel()
	p := open(t, rig{cleartext: true, url: "https://gate.example.com/ops/"})
	b := p.browser(t)
	b.Transport.(*http.Transport).Proxy = func(r *http.Request) (*url.URL, error) {
		if strings.HasPrefix(r.URL.Host, "127.") {
			return nil, nil
		}
		return url.Parse(p.URL)
	}
	if r := b.get("http://other.example.com/signin?next=/x"); r.StatusCode != 303 ||
		r.to() != "https://gate.example.com/ops/signin?next=/x" {
		t.Errorf("%d %s", r.StatusCode, r.to())
	}
	r := b.get(p.URL+"/signin/oidc/corp", "Host", "gate.example.com")
	if !strings.Contains(r.to(), url.QueryEscape(p.URL+"/signin/callback")) { // at localhost, by its own name
		t.Errorf("%s", r.to())
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/signin/oidc/corp?next=/x", nil)
	req.Host = "gate.example.com"
	resp, err := b.Do(req)
	check.Must(t, err)
	_ = resp.Body.Close()
	if to := resp.Header.Get("Location"); !strings.Contains(to,
		url.QueryEscape("https://gate.example.com/ops/signin/callback")) ||
		resp.Cookies()[0].Name != "__Host-capgate-login" {
		t.Errorf("%s %v", to, resp.Cookies())
	}
}

// TestCleartext: no session goes over a network in cleartext, unless the configured URL says so.
func TestCleartext(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]int{"": 400, "http://gate.example.com": 303} {
		p := open(t, rig{cleartext: true, url: address})
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/signin/key",
			strings.NewReader(url.Values{"key": {goodKey}}.Encode()))
		req.Host = "gate.example.com"
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := p.browser(t).Do(req)
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want || (len(resp.Cookies()) == 0) != (want == 400) {
			t.Errorf("%q: %d %v", address, resp.StatusCode, resp.Cookies())
		}
	}
}
