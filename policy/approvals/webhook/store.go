package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// Event is an event of an approval or of a quota that is to be delivered.
type Event struct {
	ID       string // the webhook-id, the same for all attempts
	Tenant   string
	Approval string // its id; "" for NearLimit
	Limit    string // a notice.Limit as JSON; only for NearLimit
	Kind     approvals.Kind
	At       time.Time // by the store's clock
}

// Type returns the type of a request.
func (e *Event) Type() string {
	if e.Kind == NearLimit {
		return string(NearLimit)
	}
	return "approval." + string(e.Kind)
}

// Entry is an Event that one replica has leased.
type Entry struct {
	Event
	Attempts int    // including this one
	Retried  bool   // it was a dead letter, and this is its first attempt since then
	Lease    string // identifies the holder
}

// Letter is a dead letter: an Event that is no longer retried.
type Letter struct {
	Event
	Destination string // its name
	Attempts    int
	Reason      string    // result of the last attempt
	Died        time.Time // by the store's clock
	Malformed   bool      // the store cannot decode it: the rest but ID and Died is missing
}

// Sizes are the numbers of entries of all replicas.
type Sizes struct{ Queued, Dead int }

// ErrMoved is the error if another replica has moved the cursor or holds the lease.
var ErrMoved = errors.New("another replica has moved the cursor or holds the lease")

// Store is shared by replicas. Each method is atomic; one that fails may have been applied.
type Store interface {
	// Watch calls told for new events of tenants, until ctx ends. After a possible loss of events, it calls connected.
	Watch(ctx context.Context, told func(tenant string, kind approvals.Kind), connected func())
	// Overdue returns expired approvals of a tenant that are not recorded as such. Reading one with its store records
	// it, and makes it an event.
	Overdue(ctx context.Context, tenant string, most int) ([]string, error)
	// Cursors returns the cursors of tenants: the last events in the outbox. nil: of all tenants with a cursor.
	Cursors(ctx context.Context, tenants []string) (map[string]string, error)
	// Read returns the events after a cursor, the oldest first, and the next cursor. The cursor "" begins at the events
	// of the last minute.
	Read(ctx context.Context, tenant, after string, most int) (events []Event, next string, err error)
	// Put adds events to the outbox of at most most entries, and moves the tenant's cursor from after to next. If
	// another replica has moved it the error is ErrMoved. If next is "", the events have no cursor. dropped is the
	// number of events that did not fit.
	Put(ctx context.Context, tenant, after, next string, events []Event, most int) (dropped int, err error)
	// Lease leases due entries for a time, and returns the wait until the next one is due; 0: none.
	Lease(ctx context.Context, most int, lease time.Duration) (taken []Entry, again time.Duration, sizes Sizes,
		err error)
	// Done removes an entry.
	Done(ctx context.Context, id string) error
	// Reschedule releases an entry until wait has passed, with its attempts, unless its lease has ended.
	Reschedule(ctx context.Context, e *Entry, wait time.Duration) error
	// DeadLetter makes an entry a dead letter, unless its lease has ended: ErrMoved. It removes the oldest letters
	// beyond most, and returns their number.
	DeadLetter(ctx context.Context, e *Entry, why string, most int) (dropped int, err error)
	// Dead returns letters, the newest first, after the first skip. Those that it cannot decode are Malformed.
	Dead(ctx context.Context, skip, most int) ([]Letter, error)
	// Retry puts a dead letter into the outbox as a new entry. It returns false if there is no such letter.
	Retry(ctx context.Context, id string) (bool, error)
}
