package tenant

import "errors"

// What a store says of a change that it does not make.
var (
	ErrThere   = errors.New("there is a tenant with this id already")
	ErrUnknown = errors.New("there is no such tenant")
	ErrChanged = errors.New("the tenant has changed meanwhile")
	ErrKeys    = errors.New("the tenant has API keys")
	ErrFull    = errors.New("there are as many as there may be")

	ErrKeyUnknown = errors.New("the tenant has no such API key")
	ErrKeyOver    = errors.New("the API key is revoked, or has expired")
	ErrKeyRotated = errors.New("another API key replaces it")
)

// How many there may be in a store.
const (
	MostTenants = 1_000_000
	MostKeys    = 100_000 // of one tenant, those that were revoked among them while they are listed
)
