package tenant

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// StillValid reports whether the credential of a caller that was authenticated is valid now, with the same tenant and
// scopes. It may wait until ctx ends. It returns true if that cannot be found out at the moment. Sessions are not
// its business.
func (i *Authenticators) StillValid(ctx context.Context, caller *Identity) bool {
	switch {
	case caller.Validity != nil:
		return caller.Validity.StillValid(ctx)
	case i == nil || caller.Person != nil || !IsKeyID(caller.Key):
		return true
	}
	now, refusal := i.Holder(ctx, caller.Key)
	if refusal != nil {
		return refusal.Kind == call.Unavailable
	}
	return now.Tenant == caller.Tenant && now.Scopes == caller.Scopes
}

// StillEnabled reports whether a tenant exists and is enabled. It returns true if the tenant cannot be read now.
func StillEnabled(ctx context.Context, tenants Tenants, id string) bool {
	settings, refusal := tenants.Settings(ctx, id)
	if refusal != nil {
		return refusal.Kind == call.Unavailable
	}
	return settings != nil && !settings.Disabled
}
