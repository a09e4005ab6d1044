package ratelimit

const (
	// MaxTenantScopes is how many values of a tenant have scopes of their own.
	MaxTenantScopes = maxTenantScopes
	// MaxScopes is how many values of all tenants have scopes of their own.
	MaxScopes = maxScopes
	// MaxWaiting is how many calls may wait for the store.
	MaxWaiting = maxWaiting
)
