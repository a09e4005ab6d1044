package drains

import (
	"context"
	"time"
)

// MaxDrains bounds the number of drains.
const MaxDrains = 1000

// Key identifies a backend of a fleet.
type Key struct{ Capability, Addr string }

// Drain is a backend that gets no new calls.
type Drain struct {
	Key
	Since time.Time // by the store's clock, once it has the drain
	By    string    // the operator that began it; "": unknown
}

// Store holds the drains, shared by all replicas, and how many calls are left at each.
type Store interface {
	// Exchange sends one replica's report and returns the shared view. Set and End of the report have
	// taken effect if the View is Written.
	Exchange(ctx context.Context, r Report) (View, error)
	// Watch calls changed, which does not block, whenever the view may have changed, until ctx ends.
	Watch(ctx context.Context, changed func())
}

// Report is the knowledge of one replica.
type Report struct {
	Replica string
	Epoch   string        // of its last View; "": none
	Set     []Key         // drains that its operators began
	End     []Key         // drains that its operators ended
	Active  []Drain       // in force here; they are restored if the store has lost its content
	Known   []Key         // the drains of backends in this replica's fleets; they are kept
	Calls   map[Key]int64 // in flight at each of Held
	Leaving bool          // the replica is about to stop, and its calls do not count
}

// View is the shared knowledge of all replicas.
type View struct {
	Epoch   string // changes when the store has lost its content
	Written bool   // Set and End were applied; else the store is read-only
	Full    bool   // a part of Set was refused, as there are Most drains already
	Drains  []Drain
	// Calls are those in flight at drained backends, by replica and backend, of all live replicas. A
	// backend is missing where the replica does not drain it yet.
	Calls map[string]map[Key]int64
}
