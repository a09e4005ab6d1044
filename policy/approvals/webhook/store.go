package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// Event is an event of an approval that is to be delivered.
type Event struct {
	ID       string // the webhook-id, the same for all attempts
	Tenant   string
	Approval string
	Kind     approvals.Kind
	At       time.Time // by the store's clock
}

// Entry is an Event that one replica has leased.
// Entry is an Event that one replica has to deliver.
type Entry struct {
	Event
	Attempts int    // including this one
	Lease    string // identifies the holder
}

// Letter is a dead letter: an Event that is not retried any more.
// Letter is an Event that is not delivered any more.
type Letter struct {
	Event
	Attempts int
	Reason   string    // result of the last attempt
	Died     time.Time // by the store's clock
}

// Sizes are the numbers of entries of all replicas.
// Sizes are how many there are, of all replicas.
type Sizes struct{ Queued, Dead int }

// ErrMoved says that another replica has moved the cursor or holds the lease.
// ErrMoved says that another replica was faster.
var ErrMoved = errors.New("another replica was faster")

// Store is shared by replicas. Each method is atomic; one that fails may have been applied.
// Store is what replicas share. Each method is one step; one that fails may have been taken.
type Store interface {
	// Watch tells of new events of tenants, until ctx ends. It may lose some, and says with
	// connected when it may have.
	Watch(ctx context.Context, told func(tenant string, kind approvals.Kind), connected func())
	// Overdue are approvals of a tenant whose time is over, which nobody has noted. To get one
	// is to note it, and makes it an event.
	Overdue(ctx context.Context, tenant string, most int) ([]string, error)
	// Cursors are up to where these tenants' events are gathered; nil: all that have a cursor.
	Cursors(ctx context.Context, tenants []string) (map[string]string, error)
	// Read answers with events after a cursor, the oldest first, and the cursor after them. ""
	// is where to begin with a tenant: at what happened in the last minute.
	Read(ctx context.Context, tenant, after string, most int) (events []Event, next string, err error)
	// Put adds events to the outbox, which has room for most, and moves the tenant's cursor. It
	// does neither if the cursor is not at after any more: ErrMoved. dropped are those without
	// a place.
	Put(ctx context.Context, tenant, after, next string, events []Event, most int) (dropped int, err error)
	// Lease takes entries whose time has come, which are nobody else's for lease, and answers
	// with when to come again: never, if there are none, is 0.
	Lease(ctx context.Context, most int, lease time.Duration) (taken []Entry, again time.Duration, sizes Sizes, err error)
	// Done takes an entry out that was delivered, or need not be any more.
	Done(ctx context.Context, id string) error
	// Reschedule puts an entry back until wait is over, with the attempts that it has, unless its
	// lease is over.
	Reschedule(ctx context.Context, e *Entry, wait time.Duration) error
	// DeadLetter makes an entry a dead letter, unless its lease is over: ErrMoved. Of more than most
	// the oldest go, which it counts.
	DeadLetter(ctx context.Context, e *Entry, why string, most int) (dropped int, err error)
	// Dead are letters, the newest first, beginning with the one after so many.
	Dead(ctx context.Context, skip, most int) ([]Letter, error)
	// Retry puts a dead letter into the outbox, as if it had never been tried. It is false
	// where there is no such letter.
	Retry(ctx context.Context, id string) (bool, error)
}
