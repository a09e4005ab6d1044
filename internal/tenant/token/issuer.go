package token

import (
	"cmp"
	"crypto/x509"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
)

// Issuer is an OpenID Connect issuer of tokens.
type Issuer struct {
	// The issuer's name in logs and metrics: letters, digits, hyphens, dots and underscores, at most 63.
	Name string `yaml:"name" kind:"name" required:"" unique:"true"`
	// Its URL, exactly as in iss of its tokens, and the base of its discovery; https, unless it is loopback or
	// insecure.
	URL string `yaml:"issuer" required:"" unique:"true"`
	// Accepted values of aud; a token must have one of them. Without them tokens for other services would be accepted.
	Audiences []string `yaml:"audiences" required:"" min:"1"`
	// URL of its keys. Default from discovery.
	JWKS string `yaml:"jwks_url"`
	// Permitted signature algorithms.
	Algorithms []string `yaml:"algorithms" kind:"algorithm" default:"[RS256, PS256, ES256, EdDSA]"`
	// Permitted clock skew.
	Leeway time.Duration `yaml:"leeway" max:"5m" default:"1m"`
	// Maximum lifetime of a token. Default any.
	MaxLifetime time.Duration `yaml:"max_lifetime" min:"1m" max:"8760h"`
	// Authorities that may vouch for it, PEM. Default the system's.
	CAFile string `yaml:"ca_file" kind:"file"`
	// true permits cleartext HTTP; for tests only.
	Insecure bool `yaml:"insecure" default:"false"`
	// true accepts tokens that are marked as ID tokens of a login.
	IDTokens bool `yaml:"id_tokens" default:"false"`
	// Tenant of all its tokens, in place of claims.tenant.
	Tenant string `yaml:"tenant" kind:"tenant"`
	// Scopes of all its tokens, in place of claims.scopes. Default invoke and read.
	Scopes tenant.Scopes `yaml:"scopes"`
	// Names that callers may assert with x-user-id and x-agent-id, in place of the claims. Default none.
	Asserts tenant.Asserts `yaml:"asserts"`
	// Names of the claims with the identity.
	Claims Claims `yaml:"claims"`
	// Scopes for the values of claims.scopes; other values are ignored. Default the scopes' own names.
	ScopeNames map[string]tenant.Scopes `yaml:"scope_names"`
	// Required values of claims, or elements of lists.
	Required map[string]string `yaml:"required_claims"`

	ClientIDs []string `yaml:"-"` // of this gateway's sign-ins; an audience among them does not make an access token
	Source    Source   `yaml:"-"`
}

// Source is the source of the keys of an issuer.
type Source struct {
	Refresh  time.Duration  // interval of fetches, plus or minus a tenth; default 5 min
	Timeout  time.Duration  // of all requests of one fetch; default 5 s
	MaxStale time.Duration  // maximum age of keys while they cannot be fetched; default 24 h
	Roots    *x509.CertPool // authorities of the servers, as in Issuer.CAFile; nil: the system's
}

func (s Source) withDefaults() Source {
	s.Refresh, s.MaxStale = cmp.Or(s.Refresh, 5*time.Minute), cmp.Or(s.MaxStale, 24*time.Hour)
	s.Timeout = cmp.Or(s.Timeout, 5*time.Second)
	return s
}

// Claims are names of claims. A name with dots is that of a claim, or else a path to one: realm_access.roles.
type Claims struct {
	// Claim with the tenant. Default tenant_id, unless the issuer has a tenant.
	Tenant string `yaml:"tenant"`
	// Claim with the user, required in each token.
	User string `yaml:"user" default:"sub"`
	// Claim with the agent. Default none.
	Agent string `yaml:"agent"`
	// Claim with the scopes: a list, or words separated by spaces. Default none.
	Scopes string `yaml:"scopes"`
	// Claim with the user's groups, for approvals.rules and operators: a list, or words separated by spaces. Default
	// none.
	Groups string `yaml:"groups"`
}

// Check checks fields that depend on each other, and sets their defaults.
func (i *Issuer) Check(at strictyaml.At) {
	for _, u := range []struct{ field, url string }{{"issuer", i.URL}, {"jwks_url", i.JWKS}} {
		if u.url == "" {
			continue
		}
		if err := CheckURL(u.url, i.Insecure); err != nil {
			at.Fail(u.field, "%s", err)
		}
	}
	if strings.Contains(i.URL, "?") {
		at.Fail("issuer", "must have no query")
	}
	switch {
	case i.Tenant == "" && i.Claims.Tenant == "":
		i.Claims.Tenant = "tenant_id"
	case i.Tenant != "" && i.Claims.Tenant != "":
		at.Fail("tenant", "claims.tenant is set, too; set only one of them")
	}
	switch {
	case i.Claims.Scopes != "" && at.Has("scopes"):
		at.Fail("scopes", "claims.scopes is set, too; set only one of them")
	case i.Claims.Scopes == "" && i.ScopeNames != nil:
		at.Fail("scope_names", "needs claims.scopes, the claim with these words")
	case i.Claims.Scopes == "" && !at.Has("scopes"):
		i.Scopes = tenant.Invoke | tenant.Read
	case i.Claims.Scopes != "" && i.ScopeNames == nil:
		i.ScopeNames = tenant.ScopesByName()
	}
}

// Algorithms returns the algorithms that an issuer may use. They have no shared secrets.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// issuer is an issuer that is, or was, in force.
type issuer struct {
	Issuer
	source *source
	gone   atomic.Bool               // another configuration has replaced it
	login  atomic.Pointer[endpoints] // of sign-ins; nil: not discovered yet
	said   atomic.Bool               // the log has a token with groups that were left out
}

// equal compares the whole configuration.
func (i Issuer) equal(o Issuer) bool {
	roots := sameRoots(i.Source.Roots, o.Source.Roots)
	i.Source.Roots, o.Source.Roots = nil, nil
	return roots && reflect.DeepEqual(i, o)
}

// sameSource reports whether both fetch the same keys in the same way.
func (i Issuer) sameSource(o Issuer) bool {
	return Issuer{Name: i.Name, URL: i.URL, JWKS: i.JWKS, Insecure: i.Insecure, Source: i.Source}.equal(
		Issuer{Name: o.Name, URL: o.URL, JWKS: o.JWKS, Insecure: o.Insecure, Source: o.Source})
}

func sameRoots(a, b *x509.CertPool) bool { return a == b || a != nil && b != nil && a.Equal(b) }
