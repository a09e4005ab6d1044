package affinity

import (
	"context"
	"time"
)

// Session names a session.
type Session struct{ Tenant, Capability, ID string }

// Pin says where a session is.
type Pin struct {
	Addr  string // its backend, host:port; "": nowhere, as that has died and nobody took its place
	Moves uint64 // how often the session was pinned anew
}

// Binding is a session and where it shall be.
type Binding struct {
	Session Session
	Pin     Pin
	TTL     time.Duration // without being bound again
	Idle    bool          // no call of this gateway uses the pin yet
}

// Bound is what the store says of a session.
type Bound struct {
	Pin   Pin           // in force
	New   bool          // it was put in force by this very question
	Age   time.Duration // since it was
	Users Users         // of the pin before this question; if New, of the pin that it replaced
}

// Users are the gateways that may have used a pin.
type Users uint8

// Users of pins.
const (
	OtherGateways Users = iota // perhaps this one, too
	ThisGateway                // no other
	Nobody
)

// Artifact names a file that a backend has.
type Artifact struct{ Tenant, Capability, ID string }

// Holding is an artifact and who has it.
type Holding struct {
	Artifact Artifact
	Addr     string // its backend, host:port
	Sure     bool   // the backend has just been given it; otherwise an older word goes before this one
	Bound    bool   // unless it is sure, it is not kept if another tenant had the artifact first
	TTL      time.Duration
}

// Store is what gateways share. Its methods end when their context does, and may be
// called from many goroutines.
type Store interface {
	// Bind puts each pin in force whose session has none, renews the TTL of those that
	// are in force, and returns what is, one for each binding. Unless a binding is idle, this gateway
	// is noted as a user of the pin before the answer.
	Bind(ctx context.Context, bindings []Binding) ([]Bound, error)

	// Move puts a pin in force if from is, or none, and returns what is. Other gateways
	// are told. Asked again what it has done already, it says New again. A pin from that is not
	// there any more counts as used.
	Move(ctx context.Context, to Binding, from Pin) (Bound, error)

	// Remember keeps holdings, and says of each whether it did, or had kept it before.
	Remember(ctx context.Context, holdings []Holding) (kept []bool, err error)

	// Holder returns the address of the backend that has an artifact, "" if none is known.
	Holder(ctx context.Context, artifact Artifact) (addr string, err error)

	// Follow tells of the moves that other gateways make, until ctx ends; told may get
	// one's own as well. missed is called when there may have been some that nobody told.
	// Neither blocks.
	Follow(ctx context.Context, told func(Session, Pin), missed func())

	// Away says that the store cannot be reached, as far as is known. It does not block.
	Away() bool
}
