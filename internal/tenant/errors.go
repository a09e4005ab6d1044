package tenant

import "errors"

// What a store says of a change that it does not make.
var (
	ErrTenantExists  = errors.New("there is a tenant with this id already")
	ErrTenantUnknown = errors.New("there is no such tenant")
	ErrTenantChanged = errors.New("the tenant has changed meanwhile")
	ErrTenantHasKeys = errors.New("the tenant has API keys")
	ErrStoreFull     = errors.New("there are as many as there may be")

	ErrKeyUnknown = errors.New("the tenant has no such API key")
	ErrKeyExpired = errors.New("the API key is revoked, or has expired")
	ErrKeyRotated = errors.New("another API key replaces it")
)

// How many there may be in a store.
const (
	MaxTenants = 1_000_000
	MaxKeys    = 100_000 // of one tenant, those that were revoked among them while they are listed
)
