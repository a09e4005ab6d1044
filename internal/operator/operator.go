// Package operator has the identities of the admin API: people and programs with roles, for one tenant or for all.
package operator

import (
	"cmp"
	"context"
	"strings"
	"time"
)

// Roles are the permissions of an operator.
type Roles uint8

// The roles. Admin includes all others; Operate and Approve include View.
const (
	View    Roles = 1 << iota // viewer: read everything; no role can read secrets
	Operate                   // operator: drain, register, discover and accept tools, deliver dead letters again
	Approve                   // approver: answer approvals
	Admin                     // admin: policies, tenants, keys, sessions, and calls as a user or agent
)

var roleNames = [...]string{"viewer", "operator", "approver", "admin"}

// AllRoles lists the names for errors.
const AllRoles = "viewer, operator, approver or admin"

// ParseRole parses one role's name.
func ParseRole(name string) (Roles, bool) {
	for i, n := range roleNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// Include reports whether the roles permit what one role permits.
func (r Roles) Include(role Roles) bool {
	if r&(Operate|Approve) != 0 {
		r |= View
	}
	return r&Admin != 0 || r&role != 0
}

// Names returns the roles' names.
func (r Roles) Names() (names []string) {
	for i, n := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

func (r Roles) String() string { return strings.Join(r.Names(), ",") }

// Unnamed is the name of an unauthenticated operator.
const Unnamed = "operator"

// Identity is an authenticated operator. It is immutable.
type Identity struct {
	Name    string        // in audit records and lists, as in "ann@example.com, issuer corp" or "key abcd"
	Roles   Roles         // for all tenants; 0: it sees those of Tenants alone
	Tenants []TenantRoles // further roles for one tenant each, sorted by tenant
	User    string        // the person; "" for a program
	Key     string        // id of its API key; "": none
	Issuer  string        // the issuer that vouched for User; "" without one
	Groups  []string      // groups of the person, by the issuer's claims
	Via     string        // how it was authenticated: one of the constants Via…
	Session *Session      // of a browser; nil: none
}

// Session is the session of a person's browser.
type Session struct {
	ID      string
	CSRF    string // that requests with effects repeat
	Expires time.Time
}

// Ways of authentication.
const (
	ViaKey         = "key"
	ViaToken       = "token"
	ViaCertificate = "certificate"
	ViaSession     = "session"  // a cookie
	ViaStart       = "start"    // the token that a process prints at its start
	ViaInsecure    = "insecure" // not at all
)

// Names returns the names by which the people and credentials behind an operator are counted, as those of a
// tenant.Identity are. An operator that nothing authenticated has none.
func (i *Identity) Names() (names []string) {
	if i == nil || i.Via == ViaInsecure {
		return nil
	}
	if i.User != "" {
		names = append(names, "user "+i.User)
	}
	switch {
	case i.Key != "":
		names = append(names, "credential key "+i.Key)
	case i.Issuer == "" && i.Name != "":
		names = append(names, "credential "+i.Name)
	}
	return names
}

type contextKey struct{}

// NewContext returns a context of a request to the admin API, with its operator.
func NewContext(ctx context.Context, identity *Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, identity)
}

// FromContext returns the operator of a request; nil outside of the admin API.
func FromContext(ctx context.Context) *Identity {
	identity, _ := ctx.Value(contextKey{}).(*Identity)
	return identity
}

// NameOf returns the name for audit records and lists: that of the authenticated operator, or what the request says
// of itself where nothing authenticated it, or Unnamed.
func NameOf(ctx context.Context, said string) string {
	return cmp.Or(Authenticated(ctx), said, Unnamed)
}

// Authenticated returns the name of the authenticated operator; "": nothing authenticated it.
func Authenticated(ctx context.Context) string {
	if identity := FromContext(ctx); identity != nil && identity.Via != ViaInsecure {
		return identity.Name
	}
	return ""
}
