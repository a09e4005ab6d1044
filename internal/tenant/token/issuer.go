package token

import (
	"crypto/x509"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// Issuer is who signs tokens, and what they mean.
type Issuer struct {
	Name        string        // in logs, metrics and identities; unique
	URL         string        // the iss of its tokens, and where discovery begins; unique
	JWKS        string        // URL of its keys; "": discovery names it
	Audiences   []string      // aud of a token must have one of them
	Algorithms  []string      // of signatures, of Algorithms()
	Leeway      time.Duration // by which clocks may differ
	MaxLifetime time.Duration // from iat, or now where there is none, to exp; 0: any
	IDTokens    bool          // tokens that say that they are ID tokens are taken, too
	Claims      Claims
	Required    []Required // all of them
	Source      Source
}

// Source is how the keys of an issuer are fetched.
type Source struct {
	Refresh  time.Duration  // from one fetch to the next, give or take a tenth
	MaxStale time.Duration  // how long keys go on while they cannot be fetched
	Roots    *x509.CertPool // who may vouch for the servers; nil: the system's
	Insecure bool           // cleartext HTTP is taken; without it only to loopback addresses
}

// Claims say where in a token the caller is. A name with dots is that of a claim, or else the
// way to one: realm_access.roles.
type Claims struct {
	Tenant      string // claim with the tenant, which must be there; or
	FixedTenant string // the tenant of all its tokens
	User        string // claim with the user, which must be there
	Agent       string // claim with the agent; "": none
	Scopes      string // claim with scopes, a list or words with blanks between; "": FixedScopes
	FixedScopes tenant.Scopes
	ScopeNames  map[string]tenant.Scopes // what the words of Scopes mean; others mean nothing
	Asserts     tenant.Asserts           // what callers may say of themselves, in place of the claims
}

// Required is what a claim must be, or a list must have.
type Required struct{ Claim, Value string }

// Algorithms are those that an issuer may use. None of them has a shared secret.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// issuer is one that is, or was, in force.
type issuer struct {
	Issuer
	source *source
	gone   atomic.Bool // another configuration is in force
}

// equal compares all that is configured.
func (i Issuer) equal(o Issuer) bool {
	roots := sameRoots(i.Source.Roots, o.Source.Roots)
	i.Source.Roots, o.Source.Roots = nil, nil
	return roots && reflect.DeepEqual(i, o)
}

// sameSource says whether the keys of both are the same, fetched in the same way.
func (i Issuer) sameSource(o Issuer) bool {
	return Issuer{Name: i.Name, URL: i.URL, JWKS: i.JWKS,
		Source: i.Source}.equal(Issuer{Name: o.Name, URL: o.URL, JWKS: o.JWKS, Source: o.Source})
}

func sameRoots(a, b *x509.CertPool) bool { return a == b || a != nil && b != nil && a.Equal(b) }
