package tenant

import "errors"

// Errors of a store that does not make a change.
var (
	ErrTenantExists  = errors.New("a tenant with this id already exists")
	ErrTenantUnknown = errors.New("the tenant does not exist")
	ErrTenantChanged = errors.New("another request has changed the tenant")
	ErrTenantHasKeys = errors.New("the tenant has API keys")
	ErrStoreFull     = errors.New("the store has reached its maximum")

	ErrKeyUnknown = errors.New("the tenant has no such API key")
	ErrKeyExpired = errors.New("the API key is revoked, or has expired")
	ErrKeyRotated = errors.New("another API key replaces it")
)

// Maximum numbers in a store.
const (
	MaxTenants = 1_000_000
	MaxKeys    = 100_000 // keys of one tenant, including revoked ones while they are listed
)
