package tenant

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a person's groups.
const (
	MaxGroups     = 128
	maxGroupBytes = 4 << 10 // of all names
)

// Person is the person of a token, as its issuer vouches for it. It is immutable.
type Person struct {
	Issuer string   // name of the issuer
	Groups []string // verified groups; sorted
	Left   int      // groups that were left out: beyond the bound, or no names

	Approver *Approver // what it may answer, if that is approvals of several tenants; nil: those of its tenant
}

// Approver determines what a person of several tenants may answer. It is immutable.
type Approver struct {
	All     Scopes       // for all tenants; 0: it sees those of Tenants alone
	Tenants []ApproverOf // further scopes for one tenant each, sorted by its id
}

// ApproverOf determines what an Approver may do for one tenant.
type ApproverOf struct {
	Settings *Settings
	Scopes   Scopes
}

// Several returns what a caller may answer, if that is approvals of several tenants; nil: those of its tenant.
func (i *Identity) Several() *Approver {
	if i.Person == nil {
		return nil
	}
	return i.Person.Approver
}

// NewPerson returns a person with the groups that are names, up to the bounds. The others give no permission.
func NewPerson(issuer string, groups []string) *Person {
	p := &Person{Issuer: issuer}
	size := 0
	for _, g := range groups {
		switch size += len(g); {
		case slices.Contains(p.Groups, g):
			size -= len(g)
		case len(p.Groups) == MaxGroups || size > maxGroupBytes || !IsGroup(g):
			size -= len(g)
			p.Left++
		default:
			p.Groups = append(p.Groups, g)
		}
	}
	slices.Sort(p.Groups)
	return p
}

// IsGroup reports whether a text can be the name of a group: names that look equal in a log must be equal.
func IsGroup(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsPrint(r)
	})
}

// Groups returns the verified groups of the caller.
func (i *Identity) Groups() []string {
	if i.Person == nil {
		return nil
	}
	return i.Person.Groups
}
