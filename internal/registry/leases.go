package registry

import (
	"context"
	"errors"
	"fmt"
)

// The errors of Leases beside failures of the store.
var (
	ErrSuperseded = errors.New("another process has registered the backend since, and has the lease")
	ErrManifests  = fmt.Errorf("all registered manifests together would exceed %d MiB", MaxManifests>>20)
	ErrFull       = errors.New("the maximum number of registrations is reached")
)

// Leases is the store of registrations, shared by all replicas. A lease expires by the store's own clock, but
// never because the store was unavailable: time without the possibility of a renewal does not count.
type Leases interface {
	// Register stores or renews a registration for its TTL. A renewal of another holder's lease fails:
	// ErrSuperseded. Otherwise this registration replaces it. ErrFull: the maximum number is reached. Its
	// manifest is stored with the first registration that has it, and kept as long as a registration
	// names it. ErrManifests: it would exceed MaxManifests.
	Register(ctx context.Context, g *Registration, renew bool, most int) error
	// Withdraw ends a registration, and reports whether there was one. A lease other than "" ends only its
	// own: ErrSuperseded.
	Withdraw(ctx context.Context, key Key, lease string) (bool, error)
	// Read returns everything, or that nothing has changed since a former Reading. It also ends expired
	// leases.
	Read(ctx context.Context, since string) (Reading, error)
	// Manifest returns the text of a manifest that a registration names, or "".
	Manifest(ctx context.Context, sum Sum) (string, error)
	// Watch calls changed, which does not block, whenever there may be changes, until ctx ends. It may miss
	// changes while the store is unavailable.
	Watch(ctx context.Context, changed func())
}

// Reading is the store's content at one moment.
type Reading struct {
	Version   string // for the next Read
	Unchanged bool   // since the given version; the other fields are empty
	Live      []Registration
	// Ended are recently ended keys, for at least a minute. A key that is neither live nor here was lost by
	// the store.
	Ended     []Key
	Malformed int // malformed values
}
