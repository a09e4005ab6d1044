package operator

import (
	"slices"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Person gives a person, or all people of a group, roles.
type Person struct {
	// Name of the issuer in issuers.
	Issuer string `yaml:"issuer" kind:"name" required:""`
	// The user, as the issuer's claims.user has it; or group.
	User string `yaml:"user" max:"256"`
	// A group of the issuer's claims.groups.
	Group string `yaml:"group" max:"256"`
	// Their roles.
	Roles Roles `yaml:"roles" required:""`
	// The only tenant of their roles. Default all.
	Tenant string `yaml:"tenant" kind:"tenant"`
}

// Check checks that there is a user or a group.
func (p *Person) Check(at strictyaml.At) {
	if (p.User == "") == (p.Group == "") {
		at.Missing("user", "required: the user, as the issuer's tokens name it; or group; not both")
	}
}

// People are the entries of the configuration.
type People []Person

// Grant adds the roles of a person to an identity: those of all entries that match.
func (p People) Grant(identity *Identity, issuer, user string, groups []string) {
	for i := range p {
		e := &p[i]
		if e.Issuer == issuer && (e.User != "" || e.Group != "") && (e.User == "" || e.User == user) &&
			(e.Group == "" || slices.Contains(groups, e.Group)) {
			identity.Grant(e.Tenant, e.Roles)
		}
	}
}

// Named reports whether an entry names a group.
func (p People) Named(group string) bool {
	return slices.ContainsFunc(p, func(e Person) bool { return e.Group == group })
}
