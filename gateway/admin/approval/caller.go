package approval

import (
	"context"
	"slices"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals"
)

// caller is an operator or an authenticated caller, with its permissions.
type caller struct {
	tenant  string
	all     bool                        // it may see several tenants, and tenant is empty
	only    []string                    // the tenants that it sees, if all is true; nil means all
	granted *tenant.Identity            // limits the visible capabilities; nil means all
	of      map[string]*tenant.Settings // visible capabilities by tenant; a tenant without an entry has all
	user    string                      // lists only approvals of this user; empty means all users
	answers bool                        // may answer, and sees approvals of all users by their ids
	rules   bool                        // may set a rule with an answer
	// as holds the roles for answers and rules by tenant; nil means they do not depend on the tenant.
	as       *operator.Identity
	by       string // the authenticated name of the approver; empty means unknown
	approver approvals.Approver
	keyID    string // its API key; empty means none
	// identity is the identity authenticated at the public port; nil means an operator.
	identity *tenant.Identity
}

// sees reports whether a caller may see an approval whose id it knows.
func (v *caller) sees(a *approvals.Approval) bool {
	return (v.all || a.Tenant == v.tenant) && (v.only == nil || slices.Contains(v.only, a.Tenant)) &&
		v.capability(a.Tenant, a.Capability) &&
		(v.answers || v.user == "" || a.User == v.user)
}

// capability reports whether a caller sees a capability of a tenant.
func (v *caller) capability(tenant, name string) bool {
	return v.granted.Sees(name) && v.of[tenant].Sees(name)
}

// seesAll reports whether a caller sees all capabilities of its tenants.
func (v *caller) seesAll() bool { return v.granted == nil && len(v.of) == 0 }

// at narrows a caller of several tenants to one tenant.
func (v *caller) at(tenant string) {
	if v.tenant, v.all = tenant, false; v.as != nil {
		roles := v.as.In(tenant)
		v.answers, v.rules = roles.Include(operator.Approve), roles.Include(operator.Admin)
	}
}

// lists reports whether the lists and events of a caller contain an approval.
func (v *caller) lists(a *approvals.Approval) bool {
	return v.sees(a) && (v.user == "" || a.User == v.user)
}

// ofOperators returns a function that returns the caller of an admin API request.
func ofOperators(tenants *tenant.Roster) func(context.Context, string) (caller, error) {
	return func(ctx context.Context, name string) (caller, error) {
		v := caller{answers: true, rules: true}
		named, err := operator.Tenants(ctx, name)
		switch {
		case err != nil:
			return caller{}, err
		case len(named) == 1:
			v.tenant, err = tenants.Read(ctx, named[0])
		case named == nil:
			v.tenant, err = tenants.Read(ctx, "")
		default:
			v.only = named
		}
		v.all = v.tenant == ""
		if v.by = operator.Authenticated(ctx); v.by != "" {
			identity := operator.FromContext(ctx)
			roles := identity.Any() // until the tenant is known
			if v.as = identity; !v.all {
				roles = identity.In(v.tenant)
			}
			v.answers, v.rules = roles.Include(operator.Approve), roles.Include(operator.Admin)
			v.approver = approvals.Approver{User: identity.User, Issuer: identity.Issuer, Groups: identity.Groups,
				Key: identity.Name}
			// as at the public port, and whatever the key is called
			if v.approver.Names, v.keyID = identity.Names(), identity.Key; identity.Key != "" {
				v.approver.Key = "key " + identity.Key
			}
		}
		return v, err
	}
}

// ofCallers returns a function that returns the caller of a request at the public port.
func ofCallers(keyName func(id string) string) func(context.Context, string) (caller, error) {
	if keyName == nil {
		keyName = func(string) string { return "" }
	}
	return func(ctx context.Context, tenantName string) (caller, error) {
		identity, err := tenant.FromContext(ctx)
		if err != nil {
			return caller{}, err
		}
		all := tenantName == "" || tenantName == tenant.All
		v := callerOf(&identity, keyName(identity.Key))
		if several := identity.Several(); several != nil {
			v.among(several)
			switch {
			case all:
			case v.only == nil || slices.Contains(v.only, tenantName):
				v.at(tenantName)
			default:
				return caller{}, refusedUnknown
			}
			return v, nil
		}
		if !all && tenantName != identity.Tenant {
			return caller{}, refusedUnknown
		}
		return v, nil
	}
}

// among makes a caller see several tenants.
func (v *caller) among(several *tenant.Approver) {
	v.tenant, v.all, v.granted, v.as = "", true, nil, &operator.Identity{Roles: rolesOf(several.All)}
	v.of = map[string]*tenant.Settings{}
	for i := range several.Tenants {
		t := &several.Tenants[i]
		v.as.Grant(t.Settings.ID, rolesOf(t.Scopes))
		if several.All == 0 {
			v.only, v.of[t.Settings.ID] = append(v.only, t.Settings.ID), t.Settings
		}
	}
	v.answers = v.as.Any().Include(operator.Approve)
	v.rules = v.as.Any().Include(operator.Admin) // until the tenant is known
}

// rolesOf returns the roles that correspond to scopes at the public port.
func rolesOf(scopes tenant.Scopes) (roles operator.Roles) {
	if scopes.Any(tenant.Approve) {
		roles |= operator.Approve
	}
	if scopes.Any(tenant.Policy) {
		roles |= operator.Admin
	}
	return roles
}

// callerOf returns the caller for an identity. keyName is the name of its key, or empty.
func callerOf(identity *tenant.Identity, keyName string) caller {
	granted := identity
	if identity.Settings == nil && identity.At == nil {
		granted = nil
	}
	v := caller{identity: identity, tenant: identity.Tenant, granted: granted, user: identity.User,
		answers: mayAnswer(identity),
		rules:   identity.Scopes.Any(tenant.Policy)}
	v.approver = approvals.Approver{User: identity.User, Groups: identity.Groups(), Key: "key " + identity.Key,
		Unverified: identity.Key == ""}
	v.approver.Names = identity.Names()
	if identity.Person == nil && tenant.IsKeyID(identity.Key) {
		v.keyID = identity.Key
	}
	if v.by = tenant.KeyLabel(identity.Key, keyName); identity.User != "" {
		v.by = untrusted.UTF8(identity.User) + ", by " + v.by
	}
	if identity.Person != nil {
		v.approver.Issuer = identity.Person.Issuer
		if v.answers { // a person who approves, not an application that acts for its users
			v.user = ""
		}
	}
	return v
}

// mayAnswer reports whether a caller may answer approvals. Without credentials no caller may, because each could claim
// to be its own approver.
func mayAnswer(identity *tenant.Identity) bool {
	return identity.Key != "" && identity.Scopes.Any(tenant.Approve)
}

var (
	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "APPROVAL_UNKNOWN",
		Message: "the approval does not exist"}
	refusedAnswer = &call.Refusal{Kind: call.PermissionDenied, Reason: "APPROVER_REQUIRED",
		Message: "answer approvals at the admin API, or with an API key that has the scope approve"}
	refusedAlways = &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING",
		Metadata: map[string]string{"scope": tenant.Policy.String()},
		Message:  "a permanent answer sets a rule: the API key lacks the scope policy, or the operator the role admin"}
)
