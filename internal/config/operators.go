package config

import (
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// Operators are the people and programs that may use the admin API.
type Operators struct {
	Given bool `yaml:",present"` // the file has the block, even an empty one
	// true: the admin API needs no credential. CAPGATE_ADMIN_INSECURE=1 and --admin-insecure do the same.
	Insecure bool `yaml:"insecure" default:"false" restart:"yes"`
	// sign_in: /metrics needs the role viewer; open: it needs no credential.
	OpenMetrics bool `yaml:"metrics" enum:"sign_in,open" default:"sign_in"`
	// TLS of the admin API. Default cleartext.
	TLS ServerTLS `yaml:"tls" restart:"switch"`
	// API keys of operators. capgate keys new creates them as those of tenants.
	Keys []OperatorKey `yaml:"keys"`
	// Client certificates of operators; they need tls.client_ca_file. The first entry that matches counts.
	Certificates []OperatorCertificate `yaml:"certificates"`
	// Issuers at which people sign in with a browser.
	SignIn []SignIn `yaml:"sign_in"`
	// Roles of people, and of tokens of issuers. The roles of all entries that match hold, each for its tenant.
	People []Person `yaml:"people"`
	// Sign-in sessions of people.
	Session Session `yaml:"session"`
}

// OperatorKey is an API key of an operator.
type OperatorKey struct {
	// The key's public part, unique among all keys; capgate keys new creates one.
	ID string `yaml:"id" kind:"key_id" required:"" unique:"key"`
	// Hash of its secret: sha256: or hmac-sha256: and 64 hexadecimal digits; or hash_file.
	Hash tenant.Hash `yaml:"hash"`
	// File with the hash.
	HashFile string `yaml:"hash_file" kind:"file"`
	// Name for display, and in the audit log.
	Name string `yaml:"name" max:"256"`
	// Its roles.
	Roles operator.Roles `yaml:"roles" default:"[viewer]"`
	// The only tenant of its roles. Default all.
	Tenant string `yaml:"tenant" kind:"tenant"`
	// End of its validity. Default never.
	Expires time.Time `yaml:"expires"`
}

// Check checks that there is one hash.
func (k *OperatorKey) Check(at strictyaml.At) { checkHash(at) }

// checkHash checks that a key has one hash.
func checkHash(at strictyaml.At) {
	switch {
	case at.Has("hash") && at.Has("hash_file"):
		at.Fail("hash_file", "hash is there, too; give one of the two")
	case !at.Has("hash") && !at.Has("hash_file"):
		at.Missing("hash", "required: the hash of the key's secret; or hash_file")
	}
}

// OperatorCertificate gives the holders of client certificates roles. It has either SPIFFE or DNS.
type OperatorCertificate struct {
	// SPIFFE ID, where * matches one segment of the path, as in spiffe://example.org/ns/*/sa/ops; or dns.
	SPIFFE string `yaml:"spiffe" kind:"spiffe"`
	// Name in the certificate. Its first label may be *.
	DNS string `yaml:"dns" kind:"certificate_name"`
	// Their roles.
	Roles operator.Roles `yaml:"roles" default:"[viewer]"`
	// The only tenant of their roles. Default all.
	Tenant string `yaml:"tenant" kind:"tenant"`
}

// Check checks that there is one name.
func (c *OperatorCertificate) Check(at strictyaml.At) {
	if at.Has("spiffe") == at.Has("dns") {
		at.Missing("spiffe", "required: the SPIFFE ID of the certificates, as in "+
			"spiffe://example.org/ns/ops/sa/deployer; or dns; not both")
	}
}

// SignIn is an issuer at which people sign in, by the authorization code flow with PKCE.
type SignIn struct {
	// Name of the issuer in issuers.
	Issuer string `yaml:"issuer" kind:"name" required:"" unique:"sign_in"`
	// ID of this gateway as a client of the issuer.
	ClientID string `yaml:"client_id" required:"" max:"512"`
	// File with the secret of the client. Default none: a public client.
	ClientSecretFile string `yaml:"client_secret_file" kind:"file"`
	// Scopes of the request to the issuer.
	Scopes []string `yaml:"scopes" default:"[openid, profile, email]"`
}

// Person gives a person, or all people of a group, roles.
type Person struct {
	// Name of the issuer in issuers.
	Issuer string `yaml:"issuer" kind:"name" required:""`
	// The user, as the issuer's claims.user has it; or group.
	User string `yaml:"user" max:"256"`
	// A group of the issuer's claims.groups.
	Group string `yaml:"group" max:"256"`
	// Their roles.
	Roles operator.Roles `yaml:"roles" required:""`
	// The only tenant of their roles. Default all.
	Tenant string `yaml:"tenant" kind:"tenant"`
}

// Check checks that there is a user or a group.
func (p *Person) Check(at strictyaml.At) {
	if (p.User == "") == (p.Group == "") {
		at.Missing("user", "required: the user, as the issuer's tokens name it; or group; not both")
	}
}

// Session configures the sessions of people.
type Session struct {
	// Time after which a person has to sign in again.
	TTL time.Duration `yaml:"ttl" min:"1m" max:"720h" default:"12h"`
}

// Authenticates reports whether the file restricts the admin API. A block without entries admits tenants'
// credentials with roles, and on an address other than loopback no others.
func (c *Config) Authenticates() bool {
	o := &c.Operators
	return len(o.Keys)+len(o.Certificates)+len(o.People) > 0 || o.Given && (c.Multi || !c.IsAdminLocal()) && !o.Insecure
}

// Unguarded returns the problem of an admin API that others reach, and of which the file does not say who may use it,
// or "". A flag of serve may say so.
func (c *Config) Unguarded() string {
	if o := &c.Operators; o.Given || o.Insecure || c.IsAdminLocal() {
		return ""
	}
	return "admin: serve does not start: " + c.Admin +
		" is not on loopback, and there is no operators block"
}

// Warnings returns what is unusual about the operators.
func (c *Config) Warnings() (all []string) {
	o := &c.Operators
	switch local := c.IsAdminLocal(); {
	case o.Insecure && local:
		return []string{"the admin API needs no credential: every program of this machine may change everything"}
	case o.Insecure:
		return []string{"the admin API needs no credential: every program that reaches " + c.Admin +
			" may change everything"}
	case local, !o.Given:
		return nil
	case o.TLS.CertFile == "":
		all = append(all, "operators send their credentials in cleartext: the admin API is at "+c.Admin+
			" without operators.tls; a proxy in front of it, or a private network, has to protect them")
	}
	if len(o.Keys)+len(o.Certificates)+len(o.People) == 0 && !c.Multi {
		all = append(all, "no one may use the admin API except for probes: operators has no keys, certificates or "+
			"people")
	}
	return all
}

// IsAdminLocal reports whether only programs of this machine reach the admin API.
func (c *Config) IsAdminLocal() bool { return isLoopback(c.Admin) }

// checkOperators checks what operators say against the rest of the file.
func (c *Config) checkOperators(at strictyaml.At) {
	o := &c.Operators
	if o.Insecure && len(o.Keys)+len(o.Certificates)+len(o.People)+len(o.SignIn) > 0 {
		at.Fail("insecure", "insecure excludes the other settings of operators; remove one or the other")
	}
	if len(o.Certificates) > 0 && o.TLS.ClientCAFile == "" {
		at.Fail("certificates", "need operators.tls.client_ca_file, their authorities")
	}
	for i := range o.Keys {
		here := at.Field("keys").Item(i)
		if o.Keys[i].Hash.Peppered() && c.PepperFile == "" {
			here.Fail("hash", "was made with a pepper, and there is no pepper_file; name the file with which the key "+
				"was created")
		}
		c.checkRoles(here, o.Keys[i].Roles, o.Keys[i].Tenant)
	}
	for i := range o.Certificates {
		c.checkRoles(at.Field("certificates").Item(i), o.Certificates[i].Roles, o.Certificates[i].Tenant)
	}
	for i := range o.SignIn {
		c.checkIssuer(at.Field("sign_in").Item(i), o.SignIn[i].Issuer)
	}
	for i := range o.People {
		here := at.Field("people").Item(i)
		c.checkIssuer(here, o.People[i].Issuer)
		c.checkRoles(here, o.People[i].Roles, o.People[i].Tenant)
	}
}

func (c *Config) checkRoles(at strictyaml.At, roles operator.Roles, of string) {
	if roles == 0 && !at.Failed() {
		at.Fail("roles", "is empty; name roles: %s", operator.AllRoles)
	}
	switch {
	case of == "":
	case !c.Multi && of != tenant.Default:
		at.Fail("tenant", noTenants)
	case c.Multi && !c.Identity.Stored && c.tenantOf(of) == nil:
		at.Fail("tenant", "there is no tenant %s", of)
	}
}

func (c *Config) checkIssuer(at strictyaml.At, name string) {
	for i := range c.Issuers {
		if c.Issuers[i].Name == name {
			return
		}
	}
	if name != "" {
		at.Fail("issuer", "there is no issuer %s in issuers", name)
	}
}

// hasOperators reports whether people of an issuer may be operators.
func (c *Config) hasOperators(issuer string) bool {
	for i := range c.Operators.People {
		if c.Operators.People[i].Issuer == issuer {
			return true
		}
	}
	for i := range c.Operators.SignIn {
		if c.Operators.SignIn[i].Issuer == issuer {
			return true
		}
	}
	return false
}
