package toolset

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// Bounds of stored toolsets.
const (
	MaxStored      = 10_000
	MaxStoredBytes = 16 << 20
	MaxOfTenant    = 64
	MaxTenantBytes = 1 << 20
	MaxText        = 64 << 10 // of one, in bytes
)

// Errors of a Store.
var (
	// ErrChanged rejects a change of another version of a toolset.
	ErrChanged = errors.New("the toolset was changed in the meantime; read it again, and repeat the change")
	// ErrUnknown rejects the deletion of a toolset that does not exist.
	ErrUnknown = errors.New("there is no such toolset")
	// ErrUnread is the error of a change that is stored, but could not be read then.
	ErrUnread = errors.New("the change is stored, but this replica cannot read it yet; it takes effect later")
	// ErrFull rejects a toolset beyond the bounds.
	ErrFull = errors.New("there are too many toolsets, or they are too large: a tenant may have 64, of 1 MiB in " +
		"total, and the gateway 10,000, of 16 MiB in total")
)

// Store holds the toolsets that operators have set, for all replicas. Other errors mean that it does not respond.
type Store interface {
	// Write sets a toolset, or deletes it if the record has no text. Unless etag is "", it must be that of the stored
	// toolset. The store sets Etag and Updated.
	Write(ctx context.Context, r *Record, etag string) error
	// Changed returns what has changed since a position.
	Changed(ctx context.Context, since changefeed.Position) (Changes, error)
	// Watch calls changed, which does not block, whenever toolsets may have changed, until ctx ends.
	Watch(ctx context.Context, changed func())
}

// Changes are changes of stored toolsets.
type Changes struct {
	Now        changefeed.Position
	Records    []*Record // without text: deleted
	Everything bool      // there are no other toolsets
}

// Record is a stored toolset. It is immutable.
type Record struct {
	Tenant  string // of the callers; "" means all tenants
	UID     string // of the tenant; "" for one of the configuration
	Name    string
	Text    []byte // JSON of the toolset, which is read like one of the configuration
	Etag    string // changes with each change
	Updated time.Time
	By      string // operator; "" means unknown
}
