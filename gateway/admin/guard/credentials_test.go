package guard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// rightsOf maps credentials to the rights that an authenticator returns; a reason in capitals rejects the credential.
func rightsOf(by guard.Authenticator, credential string, leaf *x509.Certificate) string {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	if leaf != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf},
			VerifiedChains: [][]*x509.Certificate{{leaf}}}
	}
	switch who, known, refusal := by.Authenticate(r); {
	case !known:
		return "unknown"
	case refusal != nil:
		return refusal.Reason
	default:
		return who.Rights()
	}
}

// TestKeysGiveTheirOwnRights: of operators' keys their secrets, roles and ends count; that of a tenant is none of them.
func TestKeysGiveTheirOwnRights(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	keys, pepper := guard.NewKeys(func() time.Time { return now }), []byte("0123456789abcdef")
	newKey := func(k guard.Key) (guard.Key, string, string) {
		id, secret := tenant.NewCredential()
		k.ID, k.Hash = id, tenant.HashOf(secret, pepper)
		return k, id, tenant.Credential(id, secret)
	}
	all, allID, ofAll := newKey(guard.Key{Name: "all", Roles: operator.Admin})
	one, _, ofOne := newKey(guard.Key{Tenant: "acme", Roles: operator.Approve})
	ends, endsID, ofEnds := newKey(guard.Key{Roles: operator.View, Expires: now.Add(time.Second)})
	keys.Replace([]guard.Key{all, one, ends}, pepper)
	_, foreign := tenant.NewCredential()
	otherID, other := tenant.NewCredential()
	for credential, want := range map[string]string{ofAll: "admin", ofOne: "; acme: approver", ofEnds: "viewer",
		tenant.Credential(allID, foreign): "CREDENTIAL_INVALID", tenant.Credential(otherID, other): "unknown",
		"": "unknown"} {
		if got := rightsOf(keys, credential, nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if ends, other := keys.Find(endsID), keys.Find(otherID); ends == nil || other != nil {
		t.Errorf("a key is found by its id: %t, by another: %t", ends != nil, other != nil)
	}
	if rights, name := keys.Find(allID).Rights(), keys.Name(allID); rights != "admin" || name != "all" {
		t.Errorf("the key of all rights is found with %q, and named %q", rights, name)
	}
	now = now.Add(time.Second)
	if got := rightsOf(keys, ofEnds, nil); got != "CREDENTIAL_EXPIRED" || keys.Find(endsID) != nil {
		t.Errorf("at the moment of its end: %q; still found: %t", got, keys.Find(endsID) != nil)
	}
}

// TestCertificates of operators: the first rule that matches counts, until the certificate ends, and where the request
// has no other credential.
func TestCertificates(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := guard.NewCertificates(func() time.Time { return now })
	c.Replace([]guard.Certificate{
		{DNS: "ops.example.org", Tenant: "acme", Roles: operator.Operate},
		{DNS: "ops.example.org", Roles: operator.Admin},
		{DNS: "view.example.org", Roles: operator.View}})
	of := func(name string) *x509.Certificate {
		return &x509.Certificate{NotAfter: now.Add(time.Minute), DNSNames: []string{name}}
	}
	for name, want := range map[string]string{"ops.example.org": "; acme: operator", "view.example.org": "viewer",
		"other.example.org": "unknown"} {
		if got := rightsOf(c, "", of(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := rightsOf(c, "a key", of("ops.example.org")); got != "unknown" {
		t.Errorf("beside another credential: %q", got)
	}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	// of an unknown authority
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{of("ops.example.org")}}
	if _, known, _ := c.Authenticate(r); known {
		t.Error("a certificate that nobody has verified is accepted")
	}
	old := of("ops.example.org")
	now = old.NotAfter
	if got := rightsOf(c, "", old); got != "CREDENTIAL_EXPIRED" {
		t.Errorf("after its end: %q", got)
	}
}

// TestScopesOfTenants: the scopes role.… of a tenant's key are roles for that tenant; no other scope is a role.
func TestScopesOfTenants(t *testing.T) {
	t.Parallel()
	keys, settings := tenant.NewKeys(nil), map[string]*tenant.Settings{"acme": {ID: "acme"}}
	var all []tenant.Key
	want := map[string]string{}
	for _, one := range []struct {
		scopes tenant.Scopes
		rights string
	}{
		{tenant.Invoke | tenant.Read | tenant.Approve | tenant.Policy | tenant.Admin, ""},
		{tenant.RoleViewer | tenant.Invoke, "; acme: viewer"}, {tenant.RoleOperator, "; acme: operator"},
		{tenant.RoleApprover, "; acme: approver"}, {tenant.RoleAdmin | tenant.RoleViewer, "; acme: viewer,admin"},
	} {
		id, secret := tenant.NewCredential()
		all = append(all, tenant.Key{ID: id, Tenant: "acme", Hash: tenant.HashOf(secret, nil), Scopes: one.scopes})
		want[tenant.Credential(id, secret)] = one.rights
	}
	keys.Replace(all, settings, nil)
	by := guard.NewTenants(tenant.NewAuthenticators(tenant.Sources{File: keys}))
	for credential, rights := range want {
		if got := rightsOf(by, credential, nil); got != rights {
			t.Errorf("%q, want %q", got, rights)
		}
	}
}

// verifier takes a token for the name of its holder.
type verifier map[string]tenant.Identity

func (v verifier) Operator(_ context.Context, raw string) (tenant.Identity, *call.Refusal) {
	who, ok := v[raw]
	if !ok {
		return who, &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID"}
	}
	return who, nil
}

// TestTokens of people: the entries of the configuration give roles, and the scopes of a token add to those for its
// tenant.
func TestTokens(t *testing.T) {
	t.Parallel()
	of := func(user, at string, scopes tenant.Scopes, groups ...string) tenant.Identity {
		return tenant.Identity{User: user, Key: "corp", Tenant: at, Scopes: scopes,
			Person: &tenant.Person{Groups: groups}}
	}
	known := verifier{
		"a.viewer.token": of("ann", "", 0), "a.forged.scope": of("ann", "", tenant.RoleAdmin),
		"a.scope.ofacme": of("ann", "acme", tenant.RoleApprover), "a.group.member": of("bob", "", 0, "ops"),
		"a.tenants.person": of("cid", "acme", tenant.RoleViewer),
		"a.strange.tenant": of("cid", "globex", tenant.RoleAdmin),
		"a.person.unknown": of("eve", "acme", tenant.RoleAdmin),
	}
	tokens := guard.NewTokens(known)
	if got := rightsOf(tokens, "a.viewer.token", nil); got != "unknown" {
		t.Errorf("without entries: %q", got)
	}
	tokens.Replace(operator.People{{Issuer: "corp", User: "ann", Roles: operator.View},
		{Issuer: "corp", Group: "ops", Roles: operator.Operate},
		{Issuer: "corp", User: "cid", Tenant: "acme", Roles: operator.Operate}})
	for token, want := range map[string]string{
		"a.viewer.token": "viewer", "a.forged.scope": "viewer", "a.scope.ofacme": "viewer; acme: approver",
		"a.group.member": "operator", "a.tenants.person": "; acme: viewer,operator",
		"a.strange.tenant": "; acme: operator", "a.person.unknown": "unknown", "a.wrong.token": "CREDENTIAL_INVALID",
	} {
		if got := rightsOf(tokens, token, nil); got != want {
			t.Errorf("%s: %q, want %q", token, got, want)
		}
	}
}
