package approval

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals"
)

// caller is an operator or an authenticated caller, with its permissions.
type caller struct {
	tenant  string
	all     bool             // it may see all tenants, and tenant is ""
	granted *tenant.Settings // settings with the visible capabilities; nil: all
	user    string           // "": all users
	answers bool
	rules   bool   // it may set a rule with an answer
	by      string // the authenticated name of the approver; "": unknown
}

func (v *caller) sees(a *approvals.Approval) bool {
	return (v.all || a.Tenant == v.tenant) && v.granted.Sees(a.Capability) && (v.user == "" || a.User == v.user)
}

// ofOperators makes the callers of the admin API.
func ofOperators(tenants *tenant.Roster) func(context.Context, string) (caller, error) {
	return func(ctx context.Context, name string) (caller, error) {
		of, err := tenants.Read(ctx, name)
		return caller{tenant: of, all: of == "", answers: true, rules: true}, err
	}
}

// ofCallers returns the authenticated caller of a request at the public port.
func ofCallers(ctx context.Context, tenantName string) (caller, error) {
	who, err := tenant.FromContext(ctx)
	if err != nil {
		return caller{}, err
	}
	if tenantName != "" && tenantName != tenant.All && tenantName != who.Tenant {
		return caller{}, refusedUnknown
	}
	v := caller{tenant: who.Tenant, granted: who.Settings, user: who.User, answers: mayAnswer(who),
		rules: who.Scopes.Any(tenant.Policy)}
	if v.by = "key " + who.Key; who.User != "" {
		v.by = shown(who.User) + ", by " + v.by
	}
	return v, nil
}

// mayAnswer reports whether a caller may answer approvals, its own included. Without credentials no caller may,
// because each could claim to be its own approver.
func mayAnswer(who tenant.Identity) bool { return who.Key != "" && who.Scopes.Any(tenant.Approve) }

var (
	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "APPROVAL_UNKNOWN", Message: "the approval does not exist"}
	refusedAnswer  = &call.Refusal{Kind: call.PermissionDenied, Reason: "APPROVER_REQUIRED",
		Message: "answer approvals at the admin API, or with an API key that has the scope approve"}
	refusedAlways = &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING",
		Metadata: map[string]string{"scope": tenant.Policy.String()},
		Message:  "a permanent answer sets a rule: the API key lacks the scope policy"}
)
