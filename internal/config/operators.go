package config

import (
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// Operators are the people and programs that may use the admin API.
type Operators struct {
	Given bool `yaml:",present"` // the file has the block, even an empty one
	// true: the admin API needs no credential. CAPGATE_ADMIN_INSECURE=1 and --admin-insecure do the same.
	Insecure bool `yaml:"insecure" default:"false" restart:"yes"`
	// sign_in: /metrics needs the role viewer; open: it needs no credential.
	OpenMetrics bool `yaml:"metrics" enum:"sign_in,open" default:"sign_in"`
	// TLS of the admin API. Default cleartext.
	TLS tlsfiles.Server `yaml:"tls" restart:"switch"`
	// API keys of operators. capgate keys new creates them as those of tenants.
	Keys []guard.Key `yaml:"keys"`
	// Client certificates of operators; they need tls.client_ca_file. The first entry that matches counts.
	Certificates []guard.Certificate `yaml:"certificates"`
	// Issuers at which people sign in with a browser.
	SignIn []token.Client `yaml:"sign_in"`
	// Roles of people, and of tokens of issuers. The roles of all entries that match hold, each for its tenant.
	People operator.People `yaml:"people"`
	// Sign-in sessions of people.
	Session session.Lifetime `yaml:"session"`
}

// Authenticates reports whether the file restricts the admin API. A block without entries admits tenants'
// credentials with roles, and on an address other than loopback no others.
func (c *Config) Authenticates() bool {
	o := &c.Operators
	return len(o.Keys)+len(o.Certificates)+len(o.People) > 0 || o.Given && (c.Multi || !c.IsAdminLocal()) && !o.Insecure
}

// Unguarded returns the problem of an admin API that is not on loopback and has no operators block, or "". A flag of
// serve may permit it.
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
