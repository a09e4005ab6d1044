package drains

import (
	"context"
	"time"
)

// Most bounds the drains that there may be.
const Most = 1000

// Key names a backend of a fleet.
type Key struct{ Capability, Addr string }

// Drain is a backend that is to get no new calls.
type Drain struct {
	Key
	Since time.Time // by the board's clock, once it knows of it
}

// Board is where all replicas keep drains, and how many calls are left at each.
type Board interface {
	// Exchange tells what one replica knows and learns what all do. What it was told to set
	// and end is in the View if it is Written.
	Exchange(ctx context.Context, r Report) (View, error)
	// Follow calls changed, which does not block, whenever there may be something to learn,
	// until ctx ends.
	Follow(ctx context.Context, changed func())
}

// Report is what one replica knows.
type Report struct {
	Replica string
	Epoch   string        // of its last View; "" for none
	Set     []Key         // drains that its operators began
	End     []Key         // drains that its operators ended
	Held    []Drain       // in force here: what they were is set anew where the board has lost everything
	Known   []Key         // of these, whose backend this replica has in its fleets: they are kept
	Calls   map[Key]int64 // in flight at each of Held
	Leaving bool          // it is about to end, and its calls are none
}

// View is what all replicas know.
type View struct {
	Epoch   string // another one after the board has lost everything
	Written bool   // Set and End were; else the board can be read but not written
	Full    bool   // something of Set was not taken, as there are Most already
	Drains  []Drain
	// Calls are those in flight at drained backends, by replica and backend, of all replicas
	// that live. A backend is missing where the replica does not drain it yet.
	Calls map[string]map[Key]int64
}
