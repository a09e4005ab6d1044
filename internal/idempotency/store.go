package idempotency

import (
	"context"
	"time"
)

// Claim is the claim of a replica to execute a call.
type Claim struct {
	Tenant      string
	ID          string        // of key and owner: hexadecimal
	Fingerprint string        // fingerprint of the request, stored with the claim
	Token       string        // of the claimant; unique for each claim
	Lease       time.Duration // lifetime without a renewal
	TTL         time.Duration // lifetime of the record
	Limit       int           // maximum for a tenant; 0: only a query
}

// Found is the state of a key.
type Found struct {
	State       State
	Fingerprint string        // of the first request
	Sealed      []byte        // the response, if Answered
	Left        time.Duration // of the lease, if Running
}

// State is the state of a claim.
type State string

// The states.
const (
	None     State = "none"    // there is no claim, and this was a query
	Mine     State = "mine"    // this token has it
	Full     State = "full"    // the tenant has the maximum number
	Running  State = "running" // another token has it, and its lease is valid
	Answered State = "done"
	TooLarge State = "large"   // executed; the response is not stored
	Unknown  State = "unknown" // its owner does not know the outcome, or its lease has expired
)

// Store is shared by replicas. Each method is atomic and ends with ctx. One that fails may have been applied;
// tokens make a repetition idempotent.
type Store interface {
	// Begin claims a key, or returns the existing claim.
	Begin(ctx context.Context, c *Claim) (Found, error)
	// Renew extends a claim by another Lease, if the token has it.
	Renew(ctx context.Context, c *Claim) error
	// End stores the result of a claim: Answered, TooLarge, Unknown; None deletes it. sealed is stored with
	// Answered. It does nothing without the token.
	End(ctx context.Context, c *Claim, s State, sealed []byte) error
	// Watch delivers the ids of claims that end until ctx ends. It may lose some, and calls connected when it
	// may have.
	Watch(ctx context.Context, ended func(id string), connected func())
}
