// Package operator has the identities of the admin API: people and programs with roles, for one tenant or for all.
package operator

import (
	"cmp"
	"context"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Roles are the permissions of an operator.
type Roles uint8

// The roles. Admin includes all others; Operate and Approve include View.
const (
	View    Roles = 1 << iota // viewer: read everything but secrets, which nobody reads
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

// Unnamed is the name of an operator whom nothing authenticated.
const Unnamed = "operator"

// Identity is an authenticated operator. It is immutable.
type Identity struct {
	Name   string   // in audit records and lists, as in "ann@example.com, issuer corp" or "key abcd"
	Tenant string   // the only tenant it sees; "": all
	Roles  Roles    // what it may do
	User   string   // the person; "" for a program
	Issuer string   // the issuer that vouched for User; "" without one
	Groups []string // groups of the person, by the issuer's claims
	Via    string   // how it was authenticated: one of the constants Via…
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

// Rights returns a text for what the operator may do, which changes with that.
func (who *Identity) Rights() string { return who.Tenant + ": " + who.Roles.String() }

type contextKey struct{}

// NewContext returns a context of a request to the admin API, with its operator.
func NewContext(ctx context.Context, who *Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, who)
}

// FromContext returns the operator of a request; nil outside of the admin API.
func FromContext(ctx context.Context) *Identity {
	who, _ := ctx.Value(contextKey{}).(*Identity)
	return who
}

// NameOf returns the name for audit records and lists: that of the authenticated operator, or what the request says
// of itself where nothing authenticated it, or Unnamed.
func NameOf(ctx context.Context, said string) string {
	return cmp.Or(Authenticated(ctx), said, Unnamed)
}

// Authenticated returns the name of the authenticated operator; "": nothing authenticated it.
func Authenticated(ctx context.Context) string {
	if who := FromContext(ctx); who != nil && who.Via != ViaInsecure {
		return who.Name
	}
	return ""
}

// Tenant returns the tenant of a request that names one; "" and "-" name all. An operator of one tenant gets its own
// in place of all, and a refusal for another. The error is a *call.Refusal.
func Tenant(ctx context.Context, named string) (string, error) { return FromContext(ctx).Narrow(named) }

// Narrow is Tenant for an operator; nil: one for all tenants.
func (who *Identity) Narrow(named string) (string, error) {
	switch {
	case who == nil || who.Tenant == "" || named == who.Tenant:
		return named, nil
	case named == "" || named == "-":
		return who.Tenant, nil
	}
	return "", who.RefusedTenant()
}

// AllTenants returns a refusal unless the operator of a request has roles for all tenants. The error is a
// *call.Refusal.
func AllTenants(ctx context.Context) error {
	if who := FromContext(ctx); who != nil && who.Tenant != "" {
		return who.RefusedTenant()
	}
	return nil
}

// RefusedTenant returns the refusal of what concerns other tenants than the operator's own.
func (who *Identity) RefusedTenant() *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "OPERATOR_TENANT",
		Metadata: map[string]string{"tenant": who.Tenant},
		Message:  "the operator's roles are for the tenant " + who.Tenant + " alone"}
}
