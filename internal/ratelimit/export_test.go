package ratelimit

const (
	// MaxTenantScopes is the maximum number of values of a tenant that have scopes of their own.
	MaxTenantScopes = maxTenantScopes
	// MaxScopes is the maximum number of values of all tenants that have scopes of their own.
	MaxScopes = maxScopes
	// MaxWaiting is the maximum number of calls that wait for the store.
	MaxWaiting = maxWaiting
)
