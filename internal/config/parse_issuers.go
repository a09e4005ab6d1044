package config

import (
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

func (p *parser) issuer(at strictyaml.Place) {
	i := Issuer{
		Leeway: time.Minute, Refresh: 5 * time.Minute, MaxStale: 24 * time.Hour,
		Claims: Claims{User: "sub"},
	}
	p.Mapping(at, map[string]strictyaml.Field{
		"name": p.Text(&i.Name, func(v string) string {
			return unless(call.IsZone(v), "%q is not a name; it has 1 to 63 letters, digits, hyphens, dots and underscores", v)
		}),
		"issuer":       p.Text(&i.URL, nil),
		"audiences":    p.List(p.word(func(v string) string { i.Audiences = append(i.Audiences, v); return "" })),
		"jwks_url":     p.Text(&i.JWKSURL, nil),
		"algorithms":   p.List(p.word(i.addAlgorithm)),
		"leeway":       p.DurationUpTo(&i.Leeway, 0, 5*time.Minute),
		"max_lifetime": p.DurationUpTo(&i.MaxLifetime, time.Minute, 8760*time.Hour),
		"refresh":      p.DurationUpTo(&i.Refresh, time.Second, 24*time.Hour),
		"max_stale":    p.DurationUpTo(&i.MaxStale, time.Minute, 720*time.Hour),
		"ca_file":      p.names(&i.CAFile),
		"insecure":     p.Boolean(&i.Insecure),
		"id_tokens":    p.Boolean(&i.IDTokens),
		"tenant":       p.Text(&i.Tenant, checkTenant),
		"scopes":       p.scopes(&i.Scopes),
		"asserts":      p.asserts(&i.Asserts),
		"claims":       p.claims(&i.Claims),
		"scope_names":  p.scopeNames(&i),
		"required_claims": p.Entries(func(name string) strictyaml.Field {
			return p.word(func(v string) string {
				if i.Required == nil {
					i.Required = map[string]string{}
				}
				i.Required[name] = v
				return unless(name != "", "the name of a claim is missing")
			})
		}),
	})
	p.once(at, "name", i.Name, p.issuers, "required: the issuer's name in logs and metrics")
	p.once(at, "issuer", i.URL, p.issuerURLs, "required: its URL, exactly as in iss of its tokens")
	if len(i.Audiences) == 0 {
		p.Missing(at, "audiences", "required: accepted values of aud; without them tokens for "+
			"other services would be accepted")
	}
	p.checkIssuer(at, &i)
	p.config.Issuers = append(p.config.Issuers, i)
}

// checkIssuer checks fields that depend on each other, and sets their defaults.
func (p *parser) checkIssuer(at strictyaml.Place, i *Issuer) {
	for _, u := range []struct{ field, url string }{{"issuer", i.URL}, {"jwks_url", i.JWKSURL}} {
		if u.url == "" {
			continue
		}
		if err := token.CheckURL(u.url, i.Insecure); err != nil {
			p.Fail(at.Child(u.field), "%s", err)
		}
	}
	if strings.Contains(i.URL, "?") {
		p.Fail(at.Child("issuer"), "must have no query")
	}
	if len(i.Algorithms) == 0 {
		i.Algorithms = []string{"RS256", "PS256", "ES256", "EdDSA"}
	}
	switch {
	case i.Tenant == "" && i.Claims.Tenant == "":
		i.Claims.Tenant = "tenant_id"
	case i.Tenant != "" && i.Claims.Tenant != "":
		p.Fail(at.Child("tenant"), "claims.tenant is there, too; give one of the two")
	}
	switch {
	case i.Claims.Scopes != "" && at.Has("scopes"):
		p.Fail(at.Child("scopes"), "claims.scopes is there, too; give one of the two")
	case i.Claims.Scopes == "" && i.ScopeNames != nil:
		p.Fail(at.Child("scope_names"), "needs claims.scopes, the claim with these words")
	case i.Claims.Scopes == "" && !at.Has("scopes"):
		i.Scopes = tenant.Invoke | tenant.Read
	case i.Claims.Scopes != "" && i.ScopeNames == nil:
		i.ScopeNames = tenant.ScopesByName()
	}
}

func (i *Issuer) addAlgorithm(name string) string {
	i.Algorithms = append(i.Algorithms, name)
	return unless(slices.Contains(token.Algorithms(), name),
		"%q is not accepted; it must be one of %s", name,
		strings.Join(token.Algorithms(), ", "))
}

func (p *parser) claims(c *Claims) strictyaml.Field {
	return func(at strictyaml.Place) {
		p.Mapping(at, map[string]strictyaml.Field{
			"tenant": p.Text(&c.Tenant, nil),
			"user":   p.Text(&c.User, nil),
			"agent":  p.Text(&c.Agent, nil),
			"scopes": p.Text(&c.Scopes, nil),
		})
	}
}

// scopeNames parses a list of scopes for each word of an issuer.
func (p *parser) scopeNames(i *Issuer) strictyaml.Field {
	return p.Entries(func(name string) strictyaml.Field {
		return func(at strictyaml.Place) {
			var scopes tenant.Scopes
			p.scopes(&scopes)(at)
			if i.ScopeNames == nil {
				i.ScopeNames = map[string]tenant.Scopes{}
			}
			i.ScopeNames[name] = scopes
		}
	})
}

func (p *parser) scopes(to *tenant.Scopes) strictyaml.Field {
	return p.List(p.word(func(name string) string {
		scope, ok := tenant.ParseScope(name)
		*to |= scope
		return unless(ok, "%q is not a scope; it must be "+tenant.AllScopes, name)
	}))
}

func (p *parser) asserts(to *tenant.Asserts) strictyaml.Field {
	return p.List(p.word(func(name string) string {
		what, ok := tenant.ParseAssert(name)
		*to |= what
		return unless(ok, "%q cannot be asserted; it must be user or agent", name)
	}))
}

// applyIssuers checks issuers against the rest of the file.
func (p *parser) applyIssuers(at strictyaml.Place) {
	c := p.config
	for n := range c.Issuers {
		i := &c.Issuers[n]
		known := slices.ContainsFunc(c.Tenants, func(t Tenant) bool { return t.ID == i.Tenant })
		switch {
		case !c.Multi:
			p.Fail(at.Child("issuers"), "there are no tenants; add tenants, "+
				"as in tenants: [{id: acme, capabilities: ['*']}], or identity, with store: redis")
			return
		case i.Tenant != "" && !known && !c.Identity.Stored:
			p.Fail(at.Child("issuers"), "%s is for the tenant %s, which is not among tenants", i.Name, i.Tenant)
		}
	}
}
