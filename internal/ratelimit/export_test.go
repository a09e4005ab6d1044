package ratelimit

// MaxTenantScopes is how many values of a tenant have scopes of their own.
const MaxTenantScopes = maxTenantScopes
