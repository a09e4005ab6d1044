package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/toolschema"
)

// Store is shared by replicas. Each method but Watch must end with its ctx.
type Store interface {
	// Watch calls changed whenever something may have changed, until ctx ends. It may lose changes.
	Watch(ctx context.Context, changed func())
	// Changed returns the changes since a position; the zero one is before everything.
	Changed(ctx context.Context, since changefeed.Position) (Changes, error)
	// Read returns the record of each request, in order.
	Read(ctx context.Context, wants []ReadRequest) ([]Record, error)
	// Write changes the record of a capability. It returns ErrLeaseLost, and changes nothing, if the
	// change's lease is no longer held.
	Write(ctx context.Context, c Change) error
	// Accept makes hash the accepted one of a tool.
	Accept(ctx context.Context, capability, tool string, hash toolschema.Hash) error
	// AcquireLease requests the right to discover the tools of a capability. The lease ends after its
	// duration, or with a Change that names it. It is refused while another replica holds it, and if the
	// last one began less than within ago.
	AcquireLease(ctx context.Context, capability string, lease, within time.Duration) (Lease, error)
}

// Rules are deleted with the tools that they name.
type Rules interface {
	// DeleteTool deletes all rules of any subject that name exactly this tool. After an error it is
	// called again.
	DeleteTool(ctx context.Context, capability, tool string) error
}

// Changes are the changes since a position.
type Changes struct {
	Now          changefeed.Position
	Everything   bool     // any capability may have changed
	Capabilities []string // that have changed
}

// ReadRequest requests the record of a capability.
type ReadRequest struct {
	Capability string
	Sum        string // of the reader's discovered set, which is not sent again
}

// Record is the record of a capability in the store.
type Record struct {
	Accepted map[string]toolschema.Hash // by tool; also of removed tools
	Removed  map[string]bool            // tools of Accepted that were removed
	Sum      string                     // of the discovered set; "" if there is none
	Set      []byte                     // the discovery tool's answer; nil if the reader has it
	Last     DiscoveryStatus
}

// DiscoveryStatus is the status of discoveries.
type DiscoveryStatus struct {
	Succeeded time.Time // time of the last success; zero: never
	Failed    time.Time // time of the last failure; zero: never
	Error     string    // of the last discovery, bounded and without any part of a list of tools; "": it succeeded
	LeftOut   string    // which tools the last success left out, and why; "": none
}

// Change is one write to the store.
type Change struct {
	Capability string
	Lease      string                     // the lease of the change, which ends with it; "": none
	Sum        string                     // of Set
	Set        []byte                     // the discovered answer; nil: unchanged
	Tools      map[string]toolschema.Hash // accepted for tools without an accepted hash
	Removed    []string                   // removed tools; their accepted hashes are kept
	Error      string                     // of the discovery with this lease; "": it succeeded
	LeftOut    string                     // which tools that discovery left out, and why; "": none
}

// Lease is a lease on the discovery of a capability's tools.
type Lease struct {
	ID   string        // "": refused
	Busy bool          // then: another replica holds it; else one held it recently
	Wait time.Duration // then: until it may be free
}

// ErrLeaseLost is returned for a change after the end of its lease.
var ErrLeaseLost = errors.New("another replica has taken over the discovery")
