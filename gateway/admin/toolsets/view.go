package toolsets

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// view has the tenants and capabilities that an operator may see. It implements toolset.Catalog.
type view struct {
	*catalog.Catalog
	identity *operator.Identity        // nil: the admin API requires no credential
	tenants  []string                  // whose callers have the toolsets; nil means all
	uids     map[string]string         // of those tenants that exist
	exists   func(id, uid string) bool // reports whether a tenant exists; set if tenants is nil
	settings []*tenant.Settings        // of the operator's tenants, whose capabilities it sees; nil means it sees all
}

// viewOf returns the view that the operator of a request has of a tenant, or for "" and "-" of all tenants.
func (s *server) viewOf(ctx context.Context, of string) (v view, err error) {
	v = view{Catalog: s.Catalog, identity: operator.FromContext(ctx), uids: map[string]string{}}
	if v.tenants, err = operator.Tenants(ctx, of); err != nil {
		return v, err
	}
	if v.tenants == nil {
		v.exists = s.Tenants.Existing(ctx)
	}
	restricted := v.identity != nil && v.identity.Roles == 0
	for _, id := range v.tenants {
		settings, err := s.Tenants.Settings(ctx, id)
		if err != nil && len(v.tenants) == 1 {
			return v, err
		}
		if err == nil {
			v.uids[id] = settings.UID()
		}
		if restricted && err == nil { // the roles of an operator may name tenants that do not exist
			v.settings = append(v.settings, settings)
		}
	}
	if restricted && v.settings == nil {
		v.settings = []*tenant.Settings{}
	}
	return v, nil
}

// shows reports whether a toolset is for callers of the tenants.
func (v view) shows(set *toolset.Set) bool {
	if v.tenants == nil {
		return set.HasTenant(v.exists)
	}
	return slices.ContainsFunc(v.tenants, func(id string) bool { return set.IsFor(id, v.uids[id]) })
}

// sees reports whether the operator sees a capability.
func (v view) sees(capability string) bool {
	return v.settings == nil || slices.ContainsFunc(v.settings, func(of *tenant.Settings) bool {
		return of.Sees(capability)
	})
}

// owns reports whether the operator may change a toolset.
func (v view) owns(set *toolset.Set) bool {
	return v.identity == nil || v.identity.In(tenantOf(set)).Include(operator.Admin)
}

// chooses reports whether the operator may see an entry of a toolset. A toolset of the configuration or of all tenants
// may name capabilities that the operator's tenants do not have.
func (v view) chooses(set *toolset.Set, e *toolset.Entry) bool {
	r := set.Record()
	return r != nil && r.Tenant != "" || !e.IsExact() || v.sees(e.Capability)
}

// Capabilities implements toolset.Catalog.
func (v view) Capabilities() []string {
	all := v.Catalog.Capabilities()
	if v.settings == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return !v.sees(id) })
}

// texts returns what a query searches.
func (v view) texts(set *toolset.Set) []string {
	of := set.Toolset()
	all := slices.Concat([]string{of.Name, tenantOf(set)}, of.Groups)
	for i := range of.Tools {
		if e := &of.Tools[i]; v.chooses(set, e) {
			all = append(all, e.Capability, e.Tool, e.Name)
		}
	}
	return all
}

// tenantOf returns the tenant that a toolset is stored for, or "".
func tenantOf(set *toolset.Set) string {
	if r := set.Record(); r != nil {
		return r.Tenant
	}
	return ""
}

// listed is a toolset at its position in a list: by name, and then in the order of precedence.
type listed struct {
	position string
	set      *toolset.Set
}

// positionOf returns the position of a toolset that is at place i in the order of precedence.
func positionOf(set *toolset.Set, i int) string {
	if set.Record() != nil {
		return set.Name() + "\x00~" + tenantOf(set)
	}
	return fmt.Sprintf("%s\x00%06d", set.Name(), i)
}

func sortByPosition(all []listed) {
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(a.position, b.position) })
}

// seenTenants returns the tenants of a toolset that the operator sees.
func (v view) seenTenants(all []string) []string {
	if v.settings == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool {
		return !slices.ContainsFunc(v.settings, func(of *tenant.Settings) bool { return of != nil && of.ID == id })
	})
}
