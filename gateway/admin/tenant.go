package admin

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// maxTenant is the maximum length of the name of a tenant in a request, in bytes.
const maxTenant = 256

// OfTenant is a request about something of a tenant, or of all tenants.
type OfTenant interface {
	GetTenant() string
	GetGlobal() bool
}

// TenantOf returns the tenant of a request; empty means all tenants. reason is that of the refusal of a wrong request.
func TenantOf(ctx context.Context, all *tenant.Roster, req OfTenant, reason string) (string, error) {
	if err := CheckTenant(req, reason); err != nil {
		return "", err
	}
	if req.GetGlobal() {
		return "", operator.AllTenants(ctx)
	}
	of, err := TenantNamed(ctx, all, req.GetTenant())
	var refusal *call.Refusal
	if errors.As(err, &refusal) && refusal.Reason == "TENANT_REQUIRED" && operator.AllTenants(ctx) == nil {
		with := *refusal
		with.Message += "; --global or global=true is for all tenants"
		return "", &with
	}
	return of, err
}

// TenantNamed returns the tenant that a request must name, or the operator's own.
func TenantNamed(ctx context.Context, all *tenant.Roster, name string) (string, error) {
	name, err := operator.Tenant(ctx, name)
	if err != nil {
		return "", err
	}
	return all.Named(ctx, name)
}

// CheckTenant returns the refusal of a request with a wrong tenant, or nil.
func CheckTenant(req OfTenant, reason string) error {
	switch name := req.GetTenant(); {
	case req.GetGlobal() && name != "":
		return call.InvalidField(reason, "global", "with global, it must not have a tenant")
	case len(name) > maxTenant || !utf8.ValidString(name):
		return call.InvalidField(reason, "tenant", "it must have at most 256 bytes of UTF-8")
	}
	return nil
}
