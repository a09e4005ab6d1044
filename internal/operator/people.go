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

// Grant adds the roles of a person to an identity: those of all entries that match.
func (p People) Grant(who *Identity, issuer, user string, groups []string) {
	for i := range p {
		e := &p[i]
		if e.Issuer == issuer && (e.User != "" || e.Group != "") && (e.User == "" || e.User == user) &&
			(e.Group == "" || slices.Contains(groups, e.Group)) {
			who.Grant(e.Tenant, e.Roles)
		}
	}
}

// Named reports whether an entry names a group.
func (p People) Named(group string) bool {
	return slices.ContainsFunc(p, func(e Person) bool { return e.Group == group })
}
