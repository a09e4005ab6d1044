package tenants

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// ownTenant denotes the caller's own tenant in requests.
const ownTenant = "-"

// principal is the operator or caller of a request.
type principal struct {
	operator bool
	name     string             // in logs and audit records
	identity tenant.Identity    // zero for operators
	as       *operator.Identity // the operator; nil means one for all tenants
}

func ofOperators(ctx context.Context) (principal, error) {
	return principal{operator: true, name: operator.NameOf(ctx, ""), as: operator.FromContext(ctx)}, nil
}

// some returns the sorted tenants that an operator sees; nil means all.
func (a *principal) some() []string {
	tenants, _ := a.as.Select("") // fails only without roles, which are required for the request
	return tenants
}

// ofCallers returns the authenticated principal at the public port.
func ofCallers(ctx context.Context) (principal, error) {
	identity, err := tenant.FromContext(ctx)
	if err != nil {
		return principal{}, err
	}
	if !identity.Scopes.Any(tenant.Admin) {
		return principal{}, refusedScope
	}
	a := principal{identity: identity, name: "key " + identity.Key}
	if identity.Key == "" {
		a.name = "user " + identity.User
	}
	return a, nil
}

// requireOperator rejects principals other than operators.
func (a *principal) requireOperator() error {
	if !a.operator {
		return refusedOperators
	}
	return nil
}

// tenant resolves the tenant of a request. For callers, tenants other than their own do not exist.
func (a *principal) tenant(name string) (string, error) {
	switch {
	case a.operator:
		return a.as.Narrow(name)
	case name == ownTenant || name == a.identity.Tenant:
		return a.identity.Tenant, nil
	}
	return "", tenant.ErrTenantUnknown
}

// keyID returns the id of the principal's own API key; empty means none.
func (a *principal) keyID() string {
	switch {
	case !a.operator:
		return a.identity.Key
	case a.as != nil:
		return a.as.Key
	}
	return ""
}

// names returns the names under which the principal counts as an approver of a call.
func (a *principal) names() []string {
	if a.operator {
		return a.as.Names()
	}
	return a.identity.Names()
}

// checkGrant rejects a key with permissions that the principal lacks. own is the principal's own key, or nil.
func (a *principal) checkGrant(k, own *tenant.Key) error {
	if a.operator {
		return nil
	}
	var asserts tenant.Asserts
	if own != nil {
		asserts = own.Asserts
	}
	beyond, what := (k.Scopes &^ a.identity.Scopes).Names(), "scope"
	if len(beyond) == 0 {
		beyond, what = (k.Asserts &^ asserts).Names(), "assertion"
	}
	if len(beyond) == 0 {
		return nil
	}
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "GRANT_EXCEEDED",
		Metadata: map[string]string{what: beyond[0]},
		Message:  "a key cannot have permissions that the creating credential lacks: the " + what + " " + beyond[0]}
}

var (
	refusedOperators = &call.Refusal{Kind: call.PermissionDenied, Reason: "OPERATORS_ONLY",
		Message: "only operators may do this, at the admin API"}
	refusedScope = &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING",
		Metadata: map[string]string{"scope": tenant.Admin.String()},
		Message:  "the credential lacks the scope admin"}
)
