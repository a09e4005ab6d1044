package tenant

import (
	"context"
	"slices"

	"github.com/capgate/capgate/internal/call"
)

// StillValid reports whether the credential of a caller that was authenticated is valid now, with the same tenant and
// scopes, and whether the tenant still sees the same capabilities. It may wait until ctx ends. It returns true if that
// cannot be found out at the moment. Sessions are not its business.
func (i *Authenticators) StillValid(ctx context.Context, caller *Identity) bool {
	return i.stillHas(ctx, caller) &&
		(i == nil || i.Tenants == nil || caller.Settings == nil || caller.Settings.stillApply(ctx, i.Tenants))
}

// stillHas reports whether a caller still has its credential, with the same tenant and scopes.
func (i *Authenticators) stillHas(ctx context.Context, caller *Identity) bool {
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

// stillApply reports whether the tenant exists, is enabled and sees the same capabilities. It returns true if that
// cannot be read now.
func (s *Settings) stillApply(ctx context.Context, tenants Tenants) bool {
	now, refusal := tenants.Settings(ctx, s.ID)
	if refusal != nil {
		return refusal.Kind == call.Unavailable
	}
	return now == s || now != nil && !now.Disabled && now.uid == s.uid &&
		slices.Equal(now.Capabilities.written, s.Capabilities.written)
}

// StillEnabled reports whether a tenant exists and is enabled. It returns true if the tenant cannot be read now.
func StillEnabled(ctx context.Context, tenants Tenants, id string) bool {
	settings, refusal := tenants.Settings(ctx, id)
	if refusal != nil {
		return refusal.Kind == call.Unavailable
	}
	return settings != nil && !settings.Disabled
}
