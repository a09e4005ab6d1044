package token

import (
	"crypto/x509"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// Issuer is the configuration of an issuer of tokens.
type Issuer struct {
	Name        string        // in logs, metrics and identities; unique
	URL         string        // iss of its tokens, and base of discovery; unique
	JWKS        string        // URL of its keys; "": from discovery
	Audiences   []string      // aud of a token must have one of them
	ClientIDs   []string      // of this gateway's sign-ins; an audience among them does not make an access token
	Algorithms  []string      // of signatures, of Algorithms()
	Leeway      time.Duration // tolerated clock skew
	MaxLifetime time.Duration // from iat, or now without it, to exp; 0: any
	IDTokens    bool          // accepts tokens that are marked as ID tokens
	Claims      Claims
	Required    []Required // all of them
	Source      Source
}

// Source is how the keys of an issuer are fetched.
type Source struct {
	Refresh  time.Duration  // interval of fetches, plus or minus a tenth
	MaxStale time.Duration  // maximum age of keys while they cannot be fetched
	Roots    *x509.CertPool // authorities of the servers; nil: the system's
	Insecure bool           // accepts cleartext HTTP; else only to loopback addresses
}

// Claims are the claims with the caller's identity. A name with dots is that of a claim, or else a path to one:
// realm_access.roles.
type Claims struct {
	Tenant      string // required claim with the tenant; or
	FixedTenant string // the tenant of all its tokens
	User        string // required claim with the user
	Agent       string // claim with the agent; "": none
	Scopes      string // claim with scopes, a list or words separated by spaces; "": FixedScopes
	FixedScopes tenant.Scopes
	ScopeNames  map[string]tenant.Scopes // scopes by the words of Scopes; others are ignored
	Groups      string                   // claim with the user's groups, a list or words; "": none
	Asserts     tenant.Asserts           // names that callers may assert in place of the claims
}

// Required is the value that a claim must have, or that must be in its list.
type Required struct{ Claim, Value string }

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
	return Issuer{Name: i.Name, URL: i.URL, JWKS: i.JWKS,
		Source: i.Source}.equal(Issuer{Name: o.Name, URL: o.URL, JWKS: o.JWKS, Source: o.Source})
}

func sameRoots(a, b *x509.CertPool) bool { return a == b || a != nil && b != nil && a.Equal(b) }
