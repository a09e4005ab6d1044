package affinity

import (
	"context"
	"time"
)

// Session identifies a session.
type Session struct{ Tenant, Capability, ID string }

// Pin is the backend of a session.
type Pin struct {
	Addr  string // its backend, host:port; "": none, since that died without a replacement
	Moves uint64 // number of times that the session was moved
}

// Binding is a session with the pin that it should have.
type Binding struct {
	Session Session
	Pin     Pin
	TTL     time.Duration // until the next renewal
	Unused  bool          // no call of this gateway uses the pin yet
}

// BindResult is the store's record of a session.
type BindResult struct {
	Pin   Pin           // current
	New   bool          // this very command stored it
	Age   time.Duration // since it was stored
	Users Users         // of the pin before this command; if New, of the pin that it replaced
}

// Users says which gateways may have used a pin.
type Users uint8

// The values of Users.
const (
	OtherGateways Users = iota // perhaps this one too
	ThisGateway                // only this one
	NoGateway
)

// Artifact identifies a file at a backend. A tenant that gets the id of a deleted one has another UID, and so has none
// of its artifacts in memory. The store forgets those of a deleted tenant, and goes by Tenant alone.
type Artifact struct{ Tenant, UID, Capability, ID string }

// Location is an artifact with its backend.
type Location struct {
	Artifact      Artifact
	Addr          string // its backend, host:port
	Authoritative bool   // the backend has just received it; otherwise an older location has precedence
	OwnedOnly     bool   // if it is not Sure, an earlier owner of another tenant has precedence
	TTL           time.Duration
}

// Store is the shared state of the gateways. Its methods return when their context ends, and are
// safe for concurrent use.
type Store interface {
	// Bind stores each pin whose session has none, renews the TTL of existing pins, and returns the
	// current pins, one for each binding. Unless a binding is Idle, this gateway is registered as a
	// user of the pin before the answer.
	Bind(ctx context.Context, bindings []Binding) ([]BindResult, error)

	// Move replaces the pin from, or a missing one, and returns the current pin. Other gateways
	// receive the event. A repetition of a completed move returns New again. A pin from that no longer
	// exists counts as used.
	Move(ctx context.Context, to Binding, from Pin) (BindResult, error)

	// StoreLocations stores holdings, and reports for each whether it is stored.
	StoreLocations(ctx context.Context, holdings []Location) (kept []bool, err error)

	// Locate returns the address of the backend that has an artifact, or "".
	Locate(ctx context.Context, artifact Artifact) (addr string, err error)

	// Watch delivers the moves of other gateways, and possibly its own, until ctx ends. It calls gap
	// when events may have been lost. Neither function may block.
	Watch(ctx context.Context, move func(Session, Pin), gap func())

	// Unavailable reports whether the store is known to be unavailable. It does not block.
	Unavailable() bool
}
