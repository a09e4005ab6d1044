package stored

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// Kind is a kind of objects.
type Kind struct {
	Name  string // of one object, such as "toolset": in logs, errors, audit records and signatures
	Names string // of several: in errors and in the names of keys
	Limits
	CheckName func(name string) (problem string) // "" means none
}

// Limits of what is stored. What is for all tenants has the limits of one tenant.
type Limits struct {
	Objects, Bytes             int // of all
	TenantObjects, TenantBytes int // of one tenant
}

// Words returns the limits in words.
func (l Limits) Words() string {
	return fmt.Sprintf("a tenant may have %d, of %d KiB in total, and the gateway %d, of %d KiB in total",
		l.TenantObjects, l.TenantBytes>>10, l.Objects, l.Bytes>>10)
}

// Errors of a Store and a Mirror.
var (
	// ErrChanged rejects a change of another version of an object.
	ErrChanged = errors.New("the object was changed in the meantime")
	// ErrUnknown rejects the deletion of an object that does not exist.
	ErrUnknown = errors.New("there is no such object")
	// ErrUnread is the error of a change that is stored, but could not be read then.
	ErrUnread = errors.New("the change is stored, but this replica cannot read it yet; it takes effect later")
	// ErrFull rejects an object beyond the limits.
	ErrFull = errors.New("there are too many objects, or they are too large")
)

// Store holds the objects of a kind for all replicas. Other errors mean that it does not respond.
type Store interface {
	// Write sets an object, or deletes it if the record has no text. Unless etag is "", it must be that of the stored
	// object. The store sets Etag and Updated.
	Write(ctx context.Context, r *Record, etag string) error
	// Changed returns what has changed since a position.
	Changed(ctx context.Context, since changefeed.Position) (Changes, error)
	// Watch calls changed, which does not block, whenever objects may have changed, until ctx ends.
	Watch(ctx context.Context, changed func())
}

// Changes are changes of stored objects.
type Changes struct {
	Now        changefeed.Position
	Records    []*Record // without text: deleted
	Everything bool      // there are no other objects
}

// Record is a stored object. It is immutable.
type Record struct {
	Tenant  string // of the callers; "" means all tenants
	UID     string // of the tenant; "" for one of the configuration
	Name    string
	Text    []byte
	Etag    string // changes with each change
	Updated time.Time
	By      string // operator; "" means unknown
}
