package operator

import "slices"

// Person gives one person, or all people of a group, roles.
type Person struct {
	Issuer string // name of the issuer that vouches for the person
	User   string // the user; or
	Group  string
	Roles  Roles
	Tenant string // the only tenant of the roles; "": all
}

// People are the entries of the configuration.
type People []Person

// RolesOf returns the roles of a person, and the only tenant that they are for; "": all. All entries for all tenants
// that match count; without one, those for the tenant of the first that matches. Without any there are no roles.
func (p People) RolesOf(issuer, user string, groups []string) (roles Roles, tenant string) {
	var own Roles // for the tenant of the first entry
	for i := range p {
		e := &p[i]
		switch {
		case e.Issuer != issuer || e.User != "" && e.User != user || e.Group != "" && !slices.Contains(groups, e.Group) ||
			e.User == "" && e.Group == "":
		case e.Tenant == "":
			roles |= e.Roles
		case tenant == "" || tenant == e.Tenant:
			tenant = e.Tenant
			own |= e.Roles
		}
	}
	if roles != 0 {
		return roles, ""
	}
	return own, tenant
}

// Named reports whether an entry names a group.
func (p People) Named(group string) bool {
	return slices.ContainsFunc(p, func(e Person) bool { return e.Group == group })
}
