package settings

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/tenant/token"
)

// readIssuers reads the certificate authorities of the issuers of tokens.
func (s *Settings) readIssuers() (problems []error) {
	for n := range s.Config.Issuers {
		i := &s.Config.Issuers[n]
		var roots *x509.CertPool
		if i.CAFile != "" {
			var err error
			if roots, err = CertPool(i.CAFile, s.Files); err != nil {
				problems = append(problems, fmt.Errorf("issuer %s: ca_file: %w", i.Name, err))
			}
		}
		of := issuerOf(i, roots)
		for _, c := range s.Config.Operators.SignIn {
			if c.Issuer == i.Name {
				of.ClientIDs = append(of.ClientIDs, c.ClientID)
			}
		}
		s.Issuers = append(s.Issuers, of)
	}
	return problems
}

// refreshKeys is the interval of requests for an issuer's keys, plus or minus a tenth.
const refreshKeys = 5 * time.Minute

// staleKeys is the time for which known keys are valid while their issuer is unavailable.
const staleKeys = 24 * time.Hour

func issuerOf(i *config.Issuer, roots *x509.CertPool) token.Issuer {
	t := token.Issuer{
		Name: i.Name, URL: i.URL, JWKS: i.JWKSURL, Audiences: i.Audiences, Algorithms: i.Algorithms,
		Leeway: i.Leeway, MaxLifetime: i.MaxLifetime, IDTokens: i.IDTokens,
		Claims: token.Claims{
			Tenant: i.Claims.Tenant, FixedTenant: i.Tenant, User: i.Claims.User, Agent: i.Claims.Agent,
			Scopes: i.Claims.Scopes, FixedScopes: i.Scopes, ScopeNames: i.ScopeNames, Asserts: i.Asserts,
			Groups: i.Claims.Groups,
		},
		Source: token.Source{Refresh: refreshKeys, MaxStale: staleKeys, Roots: roots, Insecure: i.Insecure},
	}
	for _, claim := range slices.Sorted(maps.Keys(i.Required)) {
		t.Required = append(t.Required, token.Required{Claim: claim, Value: i.Required[claim]})
	}
	return t
}
