package approver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/approver"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
)

// keys of acme, with a scope each.
var approving, calling = newKey(tenant.Approve | tenant.Invoke), newKey(tenant.Invoke)

type key struct {
	tenant.Key
	credential string
}

func newKey(scopes tenant.Scopes) key {
	id, secret := tenant.NewCredential()
	return key{tenant.Key{ID: id, Tenant: "acme", Name: "ci", Hash: tenant.HashOf(secret, nil), Scopes: scopes},
		tenant.Credential(id, secret)}
}

// newApprovers returns the approvers of a gateway with the tenants acme, globex and initech, which is disabled.
func newApprovers(people operator.People) *approver.Approvers {
	of := map[string]*tenant.Settings{"acme": {ID: "acme"}, "globex": {ID: "globex"},
		"initech": {ID: "initech", Disabled: true}}
	directory, keys := tenant.NewDirectory(nil), tenant.NewKeys(nil)
	directory.Replace(of)
	keys.Replace([]tenant.Key{approving.Key, calling.Key}, of, nil)
	return &approver.Approvers{Authenticators: tenant.NewAuthenticators(tenant.Sources{File: keys}),
		Directory: directory, Roster: &tenant.Roster{Directory: directory}, People: func() operator.People {
			return people
		},
		SignsIn: func(issuer string) bool { return issuer == "corp" }}
}

func person(user, of string, scopes ...string) *session.Session {
	return &session.Session{Via: session.ViaPerson, Issuer: "corp", User: user, Groups: []string{"staff"}, Tenant: of,
		Scopes: scopes}
}

// TestWhoMayAnswerForWhom: roles of the configuration and scopes of claims give the tenants for which a person answers,
// and a request for another tenant is refused.
func TestWhoMayAnswerForWhom(t *testing.T) {
	t.Parallel()
	entry := func(user, of string, roles operator.Roles) operator.Person {
		return operator.Person{Issuer: "corp", User: user, Tenant: of, Roles: roles}
	}
	a := newApprovers(operator.People{entry("all", "", operator.Approve),
		entry("admin", "", operator.Approve|operator.Admin), entry("two", "acme", operator.Approve),
		entry("two", "globex", operator.Approve|operator.Admin), entry("off", "initech", operator.Approve),
		entry("on", "initech", operator.Approve), entry("on", "acme", operator.Approve),
		entry("viewer", "acme", operator.View), entry("mix", "globex", operator.Approve),
		{Issuer: "corp", Group: "board", Tenant: "acme", Roles: operator.Approve}})
	for _, test := range []struct {
		name    string
		s       *session.Session
		of      string
		want    string // tenant and scopes, several tenants, or the refusal
		several string
	}{
		{"claims", person("ann", "acme", "approve", "invoke", "policy"), "", "acme approve,policy,read", ""},
		{"claims, by name", person("ann", "acme", "approve"), "acme", "acme approve,read", ""},
		{"claims, another tenant", person("ann", "acme", "approve"), "globex", "APPROVER_REQUIRED", ""},
		{"claims without the scope", person("ann", "acme", "read", "policy"), "", "APPROVER_REQUIRED", ""},
		{"claims without the scope beside a role", person("mix", "acme", "read"), "", "globex approve,read", ""},
		{"no tenant", person("ann", "", "approve"), "", "APPROVER_REQUIRED", ""},
		{"viewer", person("viewer", ""), "", "APPROVER_REQUIRED", ""},
		{"a group of others", person("bob", ""), "", "APPROVER_REQUIRED", ""},
		{"an issuer that does not sign in", &session.Session{Via: session.ViaPerson, Issuer: "other", User: "all"}, "",
			"SESSION_INVALID", ""},
		{"a tenant that is disabled", person("off", ""), "", "TENANT_DISABLED", ""},
		{"a disabled tenant among others", person("on", ""), "", "acme approve,read", "acme approve"},
		{"a tenant that does not exist", person("all", ""), "nowhere", "APPROVER_REQUIRED", ""},
		{"all tenants", person("all", ""), "", "acme approve,read", "all approve"},
		{"all tenants, one by name", person("all", ""), "globex", "globex approve,read", ""},
		{"an admin remembers", person("admin", ""), "globex", "globex approve,policy,read", ""},
		{"two", person("two", ""), "-", "acme approve,policy,read", "acme approve; globex approve,policy"},
		{"two, one by name", person("two", ""), "acme", "acme approve,read", ""},
		{"two, another", person("two", ""), "initech", "APPROVER_REQUIRED", ""},
		{"key", &session.Session{Via: session.ViaKey, Key: approving.ID}, "", "acme approve,read", ""},
		{"key, another tenant", &session.Session{Via: session.ViaKey, Key: approving.ID}, "globex",
			"APPROVER_REQUIRED", ""},
		{"key without the scope", &session.Session{Via: session.ViaKey, Key: calling.ID}, "", "APPROVER_REQUIRED", ""},
		{"key that is gone", &session.Session{Via: session.ViaKey, Key: "abcdefghijklmnop"}, "",
			"CREDENTIAL_INVALID", ""},
	} {
		who, refusal := a.Identity(t.Context(), test.s, test.of)
		got := who.Tenant + " " + names(who.Scopes)
		if refusal != nil {
			got = refusal.Reason
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if got := several(&who); got != test.several {
			t.Errorf("%s: answers for %q, want %q", test.name, got, test.several)
		}
	}
}

func names(s tenant.Scopes) string {
	all := slices.Clone(s.Names())
	slices.Sort(all)
	return strings.Join(all, ",")
}

// several returns the tenants for which a caller answers, with their scopes.
func several(who *tenant.Identity) string {
	of := who.Several()
	if of == nil {
		return ""
	}
	if of.All != 0 {
		return "all " + names(of.All)
	}
	var all []string
	for i := range of.Tenants {
		all = append(all, of.Tenants[i].Settings.ID+" "+names(of.Tenants[i].Scopes))
	}
	return strings.Join(all, "; ")
}

// TestSignInByKey: a key signs in if it is good, and its session has nothing of its secret.
func TestSignInByKey(t *testing.T) {
	t.Parallel()
	a := newApprovers(nil)
	s, refusal := a.Key(t.Context(), approving.credential)
	if refusal != nil || s.Key != approving.ID || s.KeyName != "ci" || s.Of != "acme" || s.Via != session.ViaKey {
		t.Fatalf("%+v, %+v", s, refusal)
	}
	id, _ := tenant.NewCredential()
	for _, wrong := range []string{"", "password", tenant.Credential(approving.ID, strings.Repeat("a", 52)),
		strings.Replace(approving.credential, approving.ID, id, 1)} {
		if s, refusal := a.Key(t.Context(), wrong); refusal == nil {
			t.Errorf("%q signs in as %+v", wrong, s)
		}
	}
	a.Authenticators = nil
	if _, refusal := a.Key(t.Context(), approving.credential); refusal == nil {
		t.Error("a key signs in without tenants")
	}
}

// TestRightsChangeWithTheConfiguration: streams of a session end when its rights change, which they do with the roles
// of its person, and with the tenants that are enabled.
func TestRightsChangeWithTheConfiguration(t *testing.T) {
	t.Parallel()
	roles := operator.Person{Issuer: "corp", User: "ann", Roles: operator.Approve}
	people := operator.People{roles}
	a := newApprovers(nil)
	a.People = func() operator.People { return people }
	rights := func() string {
		got, refusal := a.Check(t.Context(), person("ann", ""))
		if refusal != nil {
			t.Fatal(refusal)
		}
		return got
	}
	before := rights()
	if again := rights(); again != before {
		t.Errorf("%q, then %q", before, again)
	}
	roles.Tenant = "acme"
	people = operator.People{roles}
	one := rights()
	roles.Tenant = "globex"
	people = append(people, roles)
	two := rights()
	a.Directory.Replace(map[string]*tenant.Settings{"acme": {ID: "acme"}, "globex": {ID: "globex", Disabled: true}})
	disabled := rights()
	if all := []string{before, one, two, disabled}; len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
		t.Errorf("rights repeat: %q", all)
	}
}
