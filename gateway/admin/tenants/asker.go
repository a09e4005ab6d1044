package tenants

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// own is how a caller calls its own tenant.
const own = "-"

// asker is who makes a request, and so what there is for it.
type asker struct {
	operator bool
	name     string          // for the record
	who      tenant.Identity // unless it is an operator
}

func ofOperators(context.Context) (asker, error) { return asker{operator: true, name: "operator"}, nil }

// ofCallers is who calls at the public port, as the gateway says, which has seen to it that it
// has the scope.
func ofCallers(ctx context.Context) (asker, error) {
	who, err := tenant.FromContext(ctx)
	if err != nil {
		return asker{}, err
	}
	if !who.Scopes.Any(tenant.Admin) {
		return asker{}, refusedScope
	}
	a := asker{who: who, name: "key " + who.Key}
	if who.Key == "" {
		a.name = "user " + who.User
	}
	return a, nil
}

// operate refuses who is no operator.
func (a *asker) operate() error {
	if !a.operator {
		return refusedOperators
	}
	return nil
}

// tenant is the one that a request names. Another than the asker's own is not there for it.
func (a *asker) tenant(name string) (string, error) {
	switch {
	case a.operator:
		return name, nil
	case name == own || name == a.who.Tenant:
		return a.who.Tenant, nil
	}
	return "", tenant.ErrTenantUnknown
}

// grants refuses who would give a key more than it has. asserts are what it may say of itself.
func (a *asker) grants(k *tenant.Key, asserts tenant.Asserts) error {
	if a.operator {
		return nil
	}
	beyond, what := (k.Scopes &^ a.who.Scopes).Names(), "scope"
	if len(beyond) == 0 {
		beyond, what = (k.Asserts &^ asserts).Names(), "assertion"
	}
	if len(beyond) == 0 {
		return nil
	}
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "GRANT_EXCEEDED",
		Metadata: map[string]string{what: beyond[0]},
		Message:  "nobody gives a key what its own credential has not: the " + what + " " + beyond[0]}
}

var (
	refusedOperators = &call.Refusal{Kind: call.PermissionDenied, Reason: "OPERATORS_ONLY",
		Message: "this is for operators, at their port"}
	refusedScope = &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING",
		Metadata: map[string]string{"scope": tenant.Admin.String()},
		Message:  "the credential has not the scope admin"}
)
