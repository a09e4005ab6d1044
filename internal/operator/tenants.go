package operator

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// allTenants means all tenants in requests.
const allTenants = "-"

// TenantRoles are roles for one tenant.
type TenantRoles struct {
	Tenant string
	Roles  Roles
}

// Grant adds roles to an identity under construction, for one tenant or, for "", for all.
func (i *Identity) Grant(tenant string, roles Roles) {
	if tenant == "" {
		i.Roles |= roles
		return
	}
	at, found := slices.BinarySearchFunc(i.Tenants, tenant, func(t TenantRoles, name string) int {
		return cmp.Compare(t.Tenant, name)
	})
	switch {
	case found:
		i.Tenants[at].Roles |= roles
	case roles != 0:
		i.Tenants = slices.Insert(i.Tenants, at, TenantRoles{tenant, roles})
	}
}

// In returns the roles that hold for a tenant.
func (i *Identity) In(tenant string) Roles {
	roles := i.Roles
	for _, t := range i.Tenants {
		if t.Tenant == tenant {
			roles |= t.Roles
		}
	}
	return roles
}

// Any returns all roles, whatever tenants they are for.
func (i *Identity) Any() Roles {
	roles := i.Roles
	for _, t := range i.Tenants {
		roles |= t.Roles
	}
	return roles
}

// Only returns the only tenant that an i sees; "": it sees several, or all.
func (i *Identity) Only() string {
	if i.Roles == 0 && len(i.Tenants) == 1 {
		return i.Tenants[0].Tenant
	}
	return ""
}

// Rights returns a text for what the operator may do, which changes with that.
func (i *Identity) Rights() string {
	text := i.Roles.String()
	for _, t := range i.Tenants {
		text += "; " + t.Tenant + ": " + t.Roles.String()
	}
	return text
}

// For returns the operator as a request that needs a role sees it: with the tenants for which it has that role. It has
// no roles if no tenant remains.
func (i *Identity) For(role Roles) *Identity {
	if i.Roles.Include(role) {
		return i
	}
	next := *i
	next.Roles, next.Tenants = 0, nil
	for _, t := range i.Tenants {
		if roles := i.Roles | t.Roles; roles.Include(role) {
			next.Tenants = append(next.Tenants, TenantRoles{t.Tenant, roles})
		}
	}
	return &next
}

// Tenant returns the tenant of a request that concerns one; "" and "-" name all. An operator of one tenant gets its own
// in place of all, one of several has to name one, and each gets a refusal for others. The error is a *call.Refusal.
func Tenant(ctx context.Context, named string) (string, error) { return FromContext(ctx).Narrow(named) }

// Narrow is Tenant for an operator; nil: one for all tenants.
func (i *Identity) Narrow(named string) (string, error) {
	if i == nil || i.Roles != 0 {
		return named, nil
	}
	selected, err := i.Select(named)
	switch {
	case err != nil:
		return "", err
	case len(selected) == 1:
		return selected[0], nil
	}
	return "", &call.Refusal{Kind: call.InvalidArgument, Reason: "TENANT_REQUIRED",
		Metadata: map[string]string{"field": "tenant"},
		Message: "tenant: name one with --tenant NAME or tenant=NAME; the operator's roles are for " +
			i.tenantNames()}
}

// Tenants returns the tenants of a request that may concern several: nil for all, else the tenants that it names or,
// for "" and "-", the tenants that the operator sees. The error is a *call.Refusal.
func Tenants(ctx context.Context, named string) ([]string, error) {
	return FromContext(ctx).Select(named)
}

// Select is Tenants for an operator; nil: one for all tenants.
func (i *Identity) Select(named string) ([]string, error) {
	all := named == "" || named == allTenants
	if i == nil || i.Roles != 0 {
		if all {
			return nil, nil
		}
		return []string{named}, nil
	}
	seen := []string{} // not nil, which means all
	for _, t := range i.Tenants {
		if all || t.Tenant == named {
			seen = append(seen, t.Tenant)
		}
	}
	if len(seen) == 0 {
		return nil, i.RefusedTenant()
	}
	return seen, nil
}

// AllTenants returns a refusal unless the operator of a request has roles for all tenants. The error is a
// *call.Refusal.
func AllTenants(ctx context.Context) error {
	if identity := FromContext(ctx); identity != nil && identity.Roles == 0 {
		return identity.RefusedTenant()
	}
	return nil
}

// RefusedTenant returns the refusal of what concerns other tenants than those of the operator.
func (i *Identity) RefusedTenant() *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "OPERATOR_TENANT",
		Metadata: map[string]string{"tenant": i.Only()},
		Message:  "the operator's roles that permit this are for " + i.tenantNames() + " alone"}
}

// maxNamed bounds the tenants that an error names.
const maxNamed = 10

func (i *Identity) tenantNames() string {
	if only := i.Only(); only != "" {
		return "the tenant " + only
	}
	names := make([]string, 0, maxNamed)
	for _, t := range i.Tenants[:min(len(i.Tenants), maxNamed)] {
		names = append(names, t.Tenant)
	}
	text := "the tenants " + strings.Join(names, ", ")
	if len(i.Tenants) > maxNamed {
		text += " and others"
	}
	return text
}
