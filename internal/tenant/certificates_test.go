package tenant_test

import (
	"context"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

const orch = "spiffe://example.org/ns/tools/sa/orch"

// leaf returns a verified certificate.
func leaf(t *testing.T, change func(*x509.Certificate), names ...string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{NotAfter: epoch.Add(time.Hour)}
	for _, name := range names {
		if !strings.Contains(name, ":") {
			c.DNSNames = append(c.DNSNames, name)
			continue
		}
		u, err := url.Parse(name)
		check.Must(t, err)
		c.URIs = append(c.URIs, u)
	}
	if change != nil {
		change(c)
	}
	return c
}

func TestPeerOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		leaf   *x509.Certificate
		spiffe string
		dns    []string
	}{
		"SPIFFE":            {leaf(t, nil, orch), orch, nil},
		"SPIFFE and a name": {leaf(t, nil, orch, "Orch.Example.org."), orch, []string{"orch.example.org"}},
		"names": {leaf(t, nil, "a.example.org", "b.example.org", "*.example.org"), "",
			[]string{"a.example.org", "b.example.org"}},
		"another URI":        {leaf(t, nil, "https://example.org/x", "a.example.org"), "", []string{"a.example.org"}},
		"two SPIFFE IDs":     {leaf(t, nil, orch, "spiffe://example.org/b", "a.example.org"), "", nil},
		"SPIFFE and a URI":   {leaf(t, nil, orch, "https://example.org/x"), "", nil},
		"of a domain":        {leaf(t, nil, "spiffe://example.org", "a.example.org"), "", nil},
		"an empty segment":   {leaf(t, nil, "spiffe://example.org/ns//sa"), "", nil},
		"a slash at the end": {leaf(t, nil, "spiffe://example.org/ns/"), "", nil},
		"dots":               {leaf(t, nil, "spiffe://example.org/ns/../sa"), "", nil},
		"a star":             {leaf(t, nil, "spiffe://example.org/ns/*/sa"), "", nil},
		"a port":             {leaf(t, nil, "spiffe://example.org:1/ns"), "", nil},
		"a user":             {leaf(t, nil, "spiffe://u@example.org/ns"), "", nil},
		"a query":            {leaf(t, nil, "spiffe://example.org/ns?x"), "", nil},
		"upper case":         {leaf(t, nil, "spiffe://Example.org/ns"), "", nil},
		"escaped":            {leaf(t, nil, "spiffe://example.org/n%2fs"), "", nil},
		"long":               {leaf(t, nil, "spiffe://example.org/"+strings.Repeat("a", 2048)), "", nil},
		"an authority":       {leaf(t, func(c *x509.Certificate) { c.IsCA = true }, orch), "", nil},
		"many names": {leaf(t, func(c *x509.Certificate) { c.DNSNames = slices.Repeat([]string{"a.b"}, 33) },
			orch), "", nil},
		"nobody": {leaf(t, nil), "", nil},
	} {
		p := tenant.PeerOf(test.leaf)
		if p == nil {
			p = &tenant.Peer{}
		}
		if p.SPIFFE != test.spiffe || !slices.Equal(p.DNS, test.dns) {
			t.Errorf("%s: %q, %q", name, p.SPIFFE, p.DNS)
		}
	}
}

// some is a directory of tenants, one of which is not in memory.
type some map[string]*tenant.Settings

func (s some) Lookup(id string) (*tenant.Settings, bool) { return s[id], id != "remote" }

func (s some) Settings(_ context.Context, id string) (*tenant.Settings, *call.Refusal) {
	if id == "remote" {
		return &tenant.Settings{ID: id}, nil
	}
	return s[id], nil
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	acme := &tenant.Settings{ID: "acme"}
	now := epoch
	certificates := tenant.NewCertificates(some{"acme": acme}, func() time.Time { return now })
	certificates.Replace([]tenant.Certificate{
		{SPIFFE: "spiffe://example.org/ns/*/sa/orch", Tenant: "acme", Scopes: tenant.Invoke, Asserts: tenant.User},
		{SPIFFE: "spiffe://example.org/ns/tools/sa/orch", Tenant: "globex", Scopes: tenant.Admin}, // never reached
		{SPIFFE: "spiffe://example.org/remote", Tenant: "remote", Scopes: tenant.Read},
		{SPIFFE: "spiffe://example.org/lost", Tenant: "globex", Scopes: tenant.Read},
		{DNS: "*.agents.example.org", Tenant: "acme", Scopes: tenant.Read, Asserts: tenant.Agent},
		{DNS: "one.example.org", Tenant: "acme", Scopes: tenant.Approve},
	})
	for name, test := range map[string]struct {
		name   string
		want   tenant.Identity
		known  bool
		reason string
	}{
		"SPIFFE": {orch, tenant.Identity{Tenant: "acme", User: "ann", Key: orch, Scopes: tenant.Invoke,
			Asserts: tenant.User, Settings: acme}, true, ""},
		"a label": {"a.agents.example.org",
			tenant.Identity{Tenant: "acme", Agent: "bot", Key: "a.agents.example.org", Scopes: tenant.Read,
				Asserts: tenant.Agent, Settings: acme}, true, ""},
		"a name": {"one.example.org",
			tenant.Identity{Tenant: "acme", Key: "one.example.org", Scopes: tenant.Approve, Settings: acme}, true, ""},
		"is not in memory":   {"spiffe://example.org/remote", tenant.Identity{}, false, ""},
		"tenant is not":      {"spiffe://example.org/lost", tenant.Identity{}, true, "CREDENTIAL_INVALID"},
		"another domain":     {"spiffe://example.com/ns/tools/sa/orch", tenant.Identity{}, true, "CREDENTIAL_INVALID"},
		"a longer path":      {orch + "/more", tenant.Identity{}, true, "CREDENTIAL_INVALID"},
		"a shorter path":     {"spiffe://example.org/ns/tools/sa", tenant.Identity{}, true, "CREDENTIAL_INVALID"},
		"two segments":       {"spiffe://example.org/ns/a/b/sa/orch", tenant.Identity{}, true, "CREDENTIAL_INVALID"},
		"two labels":         {"a.b.agents.example.org", tenant.Identity{}, true, "CREDENTIAL_INVALID"},
		"the parent":         {"agents.example.org", tenant.Identity{}, true, "CREDENTIAL_INVALID"},
		"ends like a parent": {"a.badagents.example.org", tenant.Identity{}, true, "CREDENTIAL_INVALID"},
	} {
		claim := tenant.Credentials{User: "ann", Agent: "bot", Peer: tenant.PeerOf(leaf(t, nil, test.name))}
		for range 2 {
			who, known, refusal := certificates.Lookup(claim)
			who.Validity = nil
			if who != test.want || known != test.known || reasonOf(refusal) != test.reason {
				t.Errorf("%s: %+v, %v, %v", name, who, known, refusal)
			}
		}
		who, refusal := certificates.Authenticate(t.Context(), claim)
		who.Validity = nil
		if test.known && (who != test.want || reasonOf(refusal) != test.reason) ||
			!test.known && who.Tenant != "remote" {
			t.Errorf("%s: asked: %+v, %v", name, who, refusal)
		}
	}

	claim := tenant.Credentials{User: "ann", Peer: tenant.PeerOf(leaf(t, nil, orch))}
	claim.User = strings.Repeat("a", 257)
	if who, _, refusal := certificates.Lookup(claim); reasonOf(refusal) != "IDENTITY_INVALID" || who.Scopes != 0 {
		t.Errorf("%+v, %v", who, refusal)
	}
	now = claim.Peer.Expires
	if who, _, refusal := certificates.Lookup(claim); reasonOf(refusal) != "CREDENTIAL_EXPIRED" ||
		who.Scopes != 0 || who.Tenant != "acme" {
		t.Errorf("%+v, %v", who, refusal)
	}
	now = epoch
	certificates.Replace(nil)
	if who, _, refusal := certificates.Lookup(claim); reasonOf(refusal) != "CREDENTIAL_MISSING" {
		t.Errorf("%+v, %v", who, refusal)
	}
	certificates.Replace([]tenant.Certificate{{SPIFFE: "spiffe://example.org/other", Tenant: "acme"}})
	if who, _, refusal := certificates.Lookup(claim); reasonOf(refusal) != "CREDENTIAL_INVALID" {
		t.Errorf("%+v, %v", who, refusal)
	}
}

func TestSPIFFEPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		orch: true, "spiffe://example.org/*": true, "spiffe://example.org/ns/*/sa/*": true,
		"spiffe://*/ns": false, "spiffe://example.org/a*": false, "spiffe://example.org": false,
		"spiffe://example.org/": false, "https://example.org/x": false, "": false,
	} {
		if tenant.IsSPIFFEPattern(pattern) != want {
			t.Errorf("%q: %v", pattern, !want)
		}
	}
}

func TestCertificatesDoNotAllocate(t *testing.T) { // not parallel: AllocsPerRun counts what every goroutine allocates
	certificates := tenant.NewCertificates(some{"acme": {ID: "acme"}}, func() time.Time { return epoch })
	certificates.Replace([]tenant.Certificate{{SPIFFE: orch, Tenant: "acme", Scopes: tenant.Invoke}})
	claim := tenant.Credentials{Peer: tenant.PeerOf(leaf(t, nil, orch))}
	if n := testing.AllocsPerRun(100, func() { _, _, _ = certificates.Lookup(claim) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
