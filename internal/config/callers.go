package config

import (
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// Tenant is a tenant of the file.
type Tenant struct {
	// The tenant's name in policies and logs: letters, digits, hyphens, dots and underscores, at most 63.
	ID string `yaml:"id" kind:"tenant" required:"" unique:"true"`
	// Patterns of the capabilities that this tenant may see and call, at most 256; ["*"]: all.
	Capabilities tenant.Grants `yaml:"capabilities" required:""`
	// Its API keys.
	Keys []Key `yaml:"keys"`
	// Limits of its callers, on all replicas together; {}: none. Default the file's limits.
	Limits *tenant.Limits `yaml:"limits"`
}

// Key is an API key of a tenant, as capgate keys new makes one.
type Key struct {
	// The key's public part, unique among all tenants; capgate keys new creates one.
	ID string `yaml:"id" kind:"key_id" required:"" unique:"key"`
	// Hash of its secret: sha256: or hmac-sha256: and 64 hexadecimal digits; or hash_file.
	Hash tenant.Hash `yaml:"hash"`
	// File with the hash.
	HashFile string `yaml:"hash_file" kind:"file"`
	// Its scopes.
	Scopes tenant.Scopes `yaml:"scopes" default:"[invoke, read]"`
	// Names that its holder may assert with x-user-id and x-agent-id. Default none.
	Asserts tenant.Asserts `yaml:"asserts"`
	// Name for display.
	Name string `yaml:"name" max:"256"`
	// End of its validity. Default never.
	Expires time.Time `yaml:"expires"`
}

// Check checks that there is one hash.
func (k *Key) Check(at strictyaml.At) { checkHash(at) }

// Identity are settings of callers that are not in the file.
type Identity struct {
	// redis uses the tenants and API keys that capgate tenants and capgate keys create, besides the file's.
	Stored bool `yaml:"store" enum:"none,redis" default:"none"`
}

// Certificate maps client certificates to a tenant. It has either SPIFFE or DNS.
type Certificate struct {
	// SPIFFE ID, where * matches one segment of the path, as in spiffe://example.org/ns/*/sa/orch; or dns.
	SPIFFE string `yaml:"spiffe" kind:"spiffe"`
	// Name in the certificate. Its first label may be *.
	DNS string `yaml:"dns" kind:"certificate_name"`
	// Tenant of the callers with these certificates.
	Tenant string `yaml:"tenant" kind:"tenant" required:""`
	// Their scopes.
	Scopes tenant.Scopes `yaml:"scopes" default:"[invoke, read]"`
	// Names that they may assert with x-user-id and x-agent-id. Default none.
	Asserts tenant.Asserts `yaml:"asserts"`
}

// Check checks that there is one name.
func (c *Certificate) Check(at strictyaml.At) {
	if at.Has("spiffe") == at.Has("dns") {
		at.Missing("spiffe", "required: the SPIFFE ID of the certificates, as in "+
			"spiffe://example.org/ns/tools/sa/orchestrator; or dns; not both")
	}
}

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
	JWKSURL string `yaml:"jwks_url"`
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
}

// Claims are names of claims.
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
	for _, u := range []struct{ field, url string }{{"issuer", i.URL}, {"jwks_url", i.JWKSURL}} {
		if u.url == "" {
			continue
		}
		if err := token.CheckURL(u.url, i.Insecure); err != nil {
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
		at.Fail("tenant", "claims.tenant is there, too; give one of the two")
	}
	switch {
	case i.Claims.Scopes != "" && at.Has("scopes"):
		at.Fail("scopes", "claims.scopes is there, too; give one of the two")
	case i.Claims.Scopes == "" && i.ScopeNames != nil:
		at.Fail("scope_names", "needs claims.scopes, the claim with these words")
	case i.Claims.Scopes == "" && !at.Has("scopes"):
		i.Scopes = tenant.Invoke | tenant.Read
	case i.Claims.Scopes != "" && i.ScopeNames == nil:
		i.ScopeNames = tenant.ScopesByName()
	}
}

const noTenants = "there are no tenants; add tenants, as in tenants: [{id: acme, capabilities: ['*']}], or identity, " +
	"with store: redis"

// checkCallers checks the tenants that the file names, and what authenticates callers.
func (c *Config) checkCallers(at strictyaml.At) {
	known := map[string]bool{"": true}
	for i := range c.Tenants {
		known[c.Tenants[i].ID] = true
	}
	unknown := func(id string) bool { return c.Multi && !c.Identity.Stored && !known[id] }
	for i := range c.Issuers {
		if one := &c.Issuers[i]; unknown(one.Tenant) {
			at.Field("issuers").Item(i).Fail("tenant", "there is no tenant %s", one.Tenant)
		}
	}
	for i := range c.Certificates {
		if id := c.Certificates[i].Tenant; unknown(id) {
			at.Field("certificates").Item(i).Fail("tenant", "there is no tenant %s", id)
		}
	}
	ofCallers := 0
	for i := range c.Issuers {
		if !c.hasOperators(c.Issuers[i].Name) {
			ofCallers++
		}
	}
	for _, needy := range []struct {
		name string
		n    int
	}{{"issuers", ofCallers}, {"certificates", len(c.Certificates)}} {
		if needy.n > 0 && !c.Multi {
			at.Fail(needy.name, noTenants)
		}
	}
	if len(c.Certificates) > 0 && c.TLS.ClientCAFile == "" && c.Operators.TLS.ClientCAFile == "" &&
		!slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.TLS.ClientCAFile != "" }) {
		at.Fail("certificates", "need tls.client_ca_file, their authorities")
	}
	for i := range c.Tenants {
		one, here := &c.Tenants[i], at.Field("tenants").Item(i)
		if one.Limits != nil {
			checkLimits(here.Field("limits"), one.Limits)
		}
		for j := range one.Keys {
			if one.Keys[j].Hash.Peppered() && c.PepperFile == "" {
				here.Field("keys").Item(j).Fail("hash",
					"was made with a pepper, and there is no pepper_file; name the "+
						"file with which the key was created")
			}
		}
	}
	c.checkReserved(at.Field("fleets"), unknown)
}

// checkReserved checks that the sessions of backends have a tenant, if the file has tenants, and takes the names for
// DNS out of the backends.
func (c *Config) checkReserved(at strictyaml.At, unknown func(id string) bool) {
	for i := range c.Fleets {
		for j, b := range c.Fleets[i].Backends {
			here := at.Item(i).Field("backends").Item(j)
			switch {
			case b.Session == "" && b.Tenant != "":
				here.Fail("tenant", "is the tenant of the session, so it needs session")
			case b.Session == "":
			case c.Multi && b.Tenant == "":
				here.Missing("tenant", "required: the tenant of the session; tenants may have sessions with the same "+
					"id")
			case !c.Multi && b.Tenant != "":
				here.Fail("tenant", "the file has no tenants; leave it out, or add tenants or identity")
			case unknown(b.Tenant):
				here.Fail("tenant", "there is no tenant %s", b.Tenant)
			}
		}
		c.Fleets[i].takeNames()
	}
}

// checkLimits checks a block of limits. Errors between its fields have the place of the block, or of an item of each.
func checkLimits(at strictyaml.At, l *tenant.Limits) {
	for i := range l.Each {
		here := at.Field("each").Item(i)
		if err := l.Each[i].CheckNew(l.Each[:i]); err != nil && !here.Failed() {
			here.Fail("", "%s", err)
		}
	}
	if err := l.CheckNew(); err != nil && !at.Failed() {
		at.Fail("", "%s", err)
	}
}
