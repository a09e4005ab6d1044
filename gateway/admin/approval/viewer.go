package approval

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/approvals"
)

// viewer is who asks, and so what there is for it.
type viewer struct {
	tenant  string
	all     bool             // it may see all tenants', and tenant is ""
	granted *tenant.Settings // says which capabilities there are for it; nil: all
	user    string           // "": all users
	answers bool
	rules   bool   // an answer may hold always
	by      string // who answers, as is known and not only said; "": nobody knows
}

func (v *viewer) sees(a *approvals.Approval) bool {
	return (v.all || a.Tenant == v.tenant) && v.granted.Sees(a.Capability) && (v.user == "" || a.User == v.user)
}

// ofOperators is everybody who reaches the operators' port.
func ofOperators(tenants *tenant.Roster) func(context.Context, string) (viewer, error) {
	return func(ctx context.Context, name string) (viewer, error) {
		of, err := tenants.Read(ctx, name)
		return viewer{tenant: of, all: of == "", answers: true, rules: true}, err
	}
}

// ofCallers is who calls at the public port, as the gateway says.
func ofCallers(ctx context.Context, tenantName string) (viewer, error) {
	who, err := tenant.FromContext(ctx)
	if err != nil {
		return viewer{}, err
	}
	if tenantName != "" && tenantName != tenant.All && tenantName != who.Tenant {
		return viewer{}, refusedUnknown
	}
	v := viewer{tenant: who.Tenant, granted: who.Settings, user: who.User, answers: mayAnswer(who),
		rules: who.Scopes.Any(tenant.Policy)}
	if v.by = "key " + who.Key; who.User != "" {
		v.by = shown(who.User) + ", by " + v.by
	}
	return v, nil
}

// mayAnswer says whether a caller may answer what others, or it itself, want approved. Without
// credentials nobody may: whoever asks could say that it is its own approver.
func mayAnswer(who tenant.Identity) bool { return who.Key != "" && who.Scopes.Any(tenant.Approve) }

var (
	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "APPROVAL_UNKNOWN", Message: "there is no such approval"}
	refusedAnswer  = &call.Refusal{Kind: call.PermissionDenied, Reason: "APPROVER_REQUIRED",
		Message: "approvals are answered at the operators' port, or with an API key that has the scope approve"}
	refusedAlways = &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING",
		Metadata: map[string]string{"scope": tenant.Policy.String()},
		Message:  "an answer that holds always sets a rule: the API key has not the scope policy"}
)
