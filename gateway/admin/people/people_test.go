package people_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/admin/people"
	"github.com/capgate/capgate/gateway/frontdoor/signin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// tenants is a fixed directory of tenants. If away is set, it cannot be read.
type tenants map[string]*tenant.Settings

func (t tenants) Settings(_ context.Context, id string) (*tenant.Settings, *call.Refusal) {
	if id == "away" {
		return nil, &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_UNAVAILABLE"}
	}
	return t[id], nil
}

// issued is a store of sessions that no other replica shares.
type issued struct{ session.Store }

func (issued) Add(context.Context, session.Record) error { return nil }

// rig is the people of an admin API, with a key of an operator and keys of a tenant.
type rig struct {
	*people.People
	sessions *session.Manager
	keys     map[string]string // by whose they are
	ids      map[string]string
}

func newRig(t *testing.T, start string) *rig {
	t.Helper()
	r := &rig{sessions: session.New(issued{}, session.Options{}), keys: map[string]string{}, ids: map[string]string{}}
	r.sessions.SetTTL(time.Hour)
	known := tenants{"acme": {ID: "acme"}, "closed": {ID: "closed", Disabled: true}}
	newKey := func(of string) (string, tenant.Hash) {
		id, secret := tenant.NewCredential()
		r.keys[of], r.ids[of] = tenant.Credential(id, secret), id
		return id, tenant.HashOf(secret, nil)
	}
	keys, file := guard.NewKeys(nil), tenant.NewKeys(nil)
	id, hash := newKey("operator")
	keys.Replace([]guard.Key{{ID: id, Hash: hash, Name: "ops", Roles: operator.Operate}}, nil)
	var all []tenant.Key
	for of, scopes := range map[string]tenant.Scopes{"acme": tenant.RoleAdmin, "caller": tenant.Invoke | tenant.Admin} {
		id, hash = newKey(of)
		all = append(all, tenant.Key{ID: id, Hash: hash, Tenant: "acme", Scopes: scopes})
	}
	file.Replace(all, known, nil)
	r.People = people.New(people.Config{Keys: keys, Start: guard.NewStartToken(start), StartText: start, Tenants: known,
		Holders: tenant.NewAuthenticators(tenant.Sources{File: file}),
		SignIn: signin.Config{Sessions: r.sessions, URL: func() string { return "" },
			Issuers: func() []token.Client { return []token.Client{{Issuer: "corp"}} }}})
	r.Replace(operator.People{{Issuer: "corp", User: "ann", Roles: operator.View},
		{Issuer: "corp", Group: "ops", Tenant: "acme", Roles: operator.Operate},
		{Issuer: "gone", User: "ann", Roles: operator.Admin}})
	return r
}

// TestRightsOfASession: the rights of a session are the current rights of its person or key, according to the
// configuration and the tenant.
func TestRightsOfASession(t *testing.T) {
	t.Parallel()
	start := operator.NewStartToken()
	r, other := newRig(t, start), newRig(t, operator.NewStartToken())
	person := func(user, issuer, at string, scopes []string, groups ...string) *session.Session {
		return &session.Session{Via: session.ViaPerson, User: user, Issuer: issuer, Tenant: at, Scopes: scopes,
			Groups: groups}
	}
	admin := []string{"role.admin", "unknown"}
	begun, refusal := r.Key(t.Context(), start)
	if refusal != nil {
		t.Fatal(refusal)
	}
	for name, test := range map[string]struct {
		of   *session.Session
		want string // in capitals: a refusal
	}{
		"the start token":      {begun, "admin"},
		"no start token":       {&session.Session{Via: session.ViaStart}, "SESSION_INVALID"},
		"a key":                {&session.Session{Via: session.ViaKey, Key: r.ids["operator"]}, "operator"},
		"a key of a tenant":    {&session.Session{Via: session.ViaKey, Key: r.ids["acme"]}, "; acme: admin"},
		"a key without a role": {&session.Session{Via: session.ViaKey, Key: r.ids["caller"]}, "ROLE_MISSING"},
		"a key that was revoked": {&session.Session{Via: session.ViaKey, Key: other.ids["acme"]},
			"CREDENTIAL_INVALID"},
		"a person":                    {person("ann", "corp", "", nil), "viewer"},
		"a group":                     {person("bob", "corp", "", nil, "ops"), "; acme: operator"},
		"nobody":                      {person("bob", "corp", "", nil), "ROLE_MISSING"},
		"an issuer that is gone":      {person("ann", "gone", "", nil), "SESSION_INVALID"},
		"scopes of a tenant":          {person("bob", "corp", "acme", admin), "; acme: admin"},
		"scopes that are no roles":    {person("bob", "corp", "acme", []string{"admin", "invoke"}), "ROLE_MISSING"},
		"scopes of no tenant":         {person("ann", "corp", "", admin), "viewer"},
		"scopes of a disabled tenant": {person("ann", "corp", "closed", admin), "viewer"},
		"an unknown tenant":           {person("ann", "corp", "none", admin), "viewer"},
		"a tenant that is away":       {person("bob", "corp", "away", admin), "IDENTITY_UNAVAILABLE"},
		"an entry, and one away":      {person("ann", "corp", "away", admin), "viewer"},
	} {
		rights, refusal := r.Check(t.Context(), test.of)
		if refusal != nil {
			rights = refusal.Reason
		}
		if rights != test.want {
			t.Errorf("%s: %q, want %q", name, rights, test.want)
		}
	}
	if _, refusal := other.Check(t.Context(), begun); refusal == nil {
		t.Error("a session of the start token outlasts its process")
	}
}

// TestKeysThatBeginASession: the start token of this process, and keys with their secrets.
func TestKeysThatBeginASession(t *testing.T) {
	t.Parallel()
	start := operator.NewStartToken()
	r := newRig(t, start)
	_, secret := tenant.NewCredential()
	for key, want := range map[string]string{
		start: "start token", r.keys["operator"]: "key " + r.ids["operator"], r.keys["acme"]: "key " + r.ids["acme"],
		operator.NewStartToken(): "", tenant.Credential(r.ids["operator"], secret): "",
		tenant.Credential(r.ids["acme"], secret): "", "": "", "nonsense": "",
	} {
		got := ""
		if s, refusal := r.Key(t.Context(), key); refusal == nil {
			got = s.Name()
		} else if refusal.Kind != call.Unauthenticated {
			t.Error(refusal)
		}
		if got != want {
			t.Errorf("%.12s…: %q, want %q", key, got, want)
		}
	}
}

// TestMe: a browser gets the secret of its session in a response that nothing stores, and a program gets none.
func TestMe(t *testing.T) {
	t.Parallel()
	r := newRig(t, operator.NewStartToken())
	services := gatewaytest.ServeGuarded(t, r, r.Service())
	of := &session.Session{Via: session.ViaPerson, User: "ann", Issuer: "corp"}
	program, refusal := r.sessions.Issue(t.Context(), session.Program, of)
	if refusal != nil {
		t.Fatal(refusal)
	}
	browser, refusal := r.sessions.Issue(t.Context(), session.Admin, of)
	if refusal != nil {
		t.Fatal(refusal)
	}
	for name, test := range map[string]struct{ header, value, csrf, session string }{
		"a browser": {"Cookie", "capgate=" + browser, of.CSRF, of.ID},
		"a program": {"Authorization", "Bearer " + operator.SessionPrefix + program, "", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, services.URL+"/v1/me", http.NoBody)
		check.Must(t, err)
		req.Header.Set(test.header, test.value)
		resp, err := clienttest.HTTP.Do(req)
		check.Must(t, err)
		defer resp.Body.Close()
		var me struct {
			Name    string `json:"name"`
			CSRF    string `json:"csrf_token"`
			Session string `json:"session"`
		}
		check.Must(t, json.NewDecoder(resp.Body).Decode(&me))
		if me.Name != "ann, issuer corp" || me.CSRF != test.csrf || me.Session != test.session {
			t.Errorf("%s: %+v", name, me)
		}
		if h := resp.Header; h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("ETag") != "" {
			t.Errorf("%s: %v", name, h)
		}
	}
}

// TestCookiesAndCredentials: a request has the rights of its session only without another credential, and that of a
// program is one.
func TestCookiesAndCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, operator.NewStartToken())
	issue := func(kind session.Kind) string {
		text, refusal := r.sessions.Issue(t.Context(), kind,
			&session.Session{Via: session.ViaPerson, User: "ann", Issuer: "corp"})
		if refusal != nil {
			t.Fatal(refusal)
		}
		return text
	}
	browser, program := issue(session.Admin), issue(session.Program)
	for name, test := range map[string]struct{ cookie, credential, want string }{
		"a session":                         {browser, "", "viewer"},
		"another credential":                {"", "x", "unknown"},
		"a session and a credential":        {browser, "x", "unknown"},
		"neither":                           {"", "", "unknown"},
		"a session of the inbox":            {issue(session.Inbox), "", "SESSION_INVALID"},
		"a program":                         {"", operator.SessionPrefix + program, "viewer"},
		"a program as a cookie":             {program, "", "SESSION_INVALID"},
		"a cookie as a program's":           {"", operator.SessionPrefix + browser, "SESSION_INVALID"},
		"a program without one":             {"", operator.SessionPrefix, "SESSION_INVALID"},
		"a session, and a program's is bad": {browser, operator.SessionPrefix + "x", "SESSION_INVALID"},
	} {
		req := httptest.NewRequest(http.MethodGet, "/v1/me", http.NoBody)
		if test.cookie != "" {
			req.AddCookie(&http.Cookie{Name: "capgate", Value: test.cookie})
		}
		if test.credential != "" {
			req.Header.Set("Authorization", "Bearer "+test.credential)
		}
		got := "unknown"
		switch who, known, refusal := r.Authenticate(req); {
		case known && refusal != nil:
			got = refusal.Reason
		case known:
			if got = who.Rights(); who.Via != operator.ViaSession {
				t.Errorf("%s: by %s", name, who.Via)
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
