package idempotency

import (
	"context"
	"time"
)

// Claim is what a replica wants to carry out.
type Claim struct {
	Tenant string
	ID     string        // of key and caller: hexadecimal
	Print  string        // of what is asked, as it is kept with the claim
	Token  string        // of who claims; it differs between claims
	Lease  time.Duration // how long it holds without being renewed
	TTL    time.Duration // how long it is known that there was such a claim
	Most   int           // that a tenant may have; 0: it is only asked whether there is one
}

// Found is how a key stands.
type Found struct {
	State  State
	Print  string        // of what was asked first
	Sealed []byte        // the answer, of what is Answered
	Left   time.Duration // of the lease, of what is Running
}

// State is how a claim stands.
type State string

// The states.
const (
	None     State = "none"    // there is no claim, and it is only asked
	Mine     State = "mine"    // this token has it
	Full     State = "full"    // the tenant has as many as it may
	Running  State = "running" // another token has it, and its lease goes on
	Answered State = "done"
	TooLarge State = "large"   // carried out; the answer is not kept
	Unknown  State = "unknown" // its owner does not know, or its lease has ended
)

// Store is what replicas share. Each method is one step and ends with ctx. A step that fails may
// have been taken; tokens make sure that to take it twice is to take it once.
type Store interface {
	// Begin claims a key, or says who has it.
	Begin(ctx context.Context, c *Claim) (Found, error)
	// Renew lets a claim hold for another Lease. It does nothing for one that is not the token's.
	Renew(ctx context.Context, c *Claim) error
	// End says what became of a claim: Answered, TooLarge, Unknown; None forgets it. sealed is
	// kept with Answered. It does nothing for a claim that is not the token's.
	End(ctx context.Context, c *Claim, s State, sealed []byte) error
	// Follow tells which claims have ended until ctx ends. It may lose some, and says with
	// connected when it may have.
	Follow(ctx context.Context, ended func(id string), connected func())
}
