package registry

import (
	"context"
	"errors"
	"fmt"
)

// What Leases answer beside their own failures.
var (
	ErrSuperseded = errors.New("the backend was registered anew by somebody else, who has the lease now")
	ErrManifests  = fmt.Errorf("the manifests that are registered would have more than %d MiB together", MaxManifests>>20)
	ErrFull       = errors.New("there are as many registrations as may be")
)

// Leases is where all replicas keep registrations. A lease ends when its time is over by
// the store's own clock, but never because the store was away: time in which nobody could have
// renewed does not count.
type Leases interface {
	// Register stores or renews a registration for its TTL. With renew, somebody else's
	// lease stands: ErrSuperseded. Without, this one takes its place. ErrFull when it would be
	// the registration after the most there may be. Its manifest is stored with the first who
	// brings it, and kept as long as a registration names it: ErrManifests when that would be more than MaxManifests.
	Register(ctx context.Context, g *Registration, renew bool, most int) error
	// Withdraw ends a registration and says whether there was one. A lease other than ""
	// ends its own only: ErrSuperseded.
	Withdraw(ctx context.Context, key Key, lease string) (bool, error)
	// Read returns everything, or only that nothing has changed since a former Reading.
	// It also ends the leases whose time is over.
	Read(ctx context.Context, since string) (Reading, error)
	// Manifest returns the text of a manifest that a registration names, "" if it is not there.
	Manifest(ctx context.Context, sum Sum) (string, error)
	// Follow calls changed, which does not block, whenever there may be something to
	// read, until ctx ends. It may miss changes while the store is away.
	Follow(ctx context.Context, changed func())
}

// Reading is what the store knew at one moment.
type Reading struct {
	Version   string // to be given to the next Read
	Unchanged bool   // since the version that was given; the rest is empty
	Live      []Registration
	// Ended are keys that ended lately, for at least a minute after. What is neither live nor here
	// was lost by the store.
	Ended     []Key
	Malformed int // values that could not be read
}
