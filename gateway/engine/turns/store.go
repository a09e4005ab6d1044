package turns

import (
	"context"
	"time"
)

// Ticket waits for a turn, or holds it.
type Ticket struct {
	Engine, Tenant string
	ID             string        // unique; letters and digits
	Lease          time.Duration // validity without renewal
	MaxWaiting     int           // maximum number of waiting tickets of the engine
	Seq            int64         // position in the order of arrival, from Wait; 0 means new
	MaybeLost      bool          // the store may have lost the holder of the turn
}

// Status is the state of a ticket in the queue.
type Status struct {
	State State
	Seq   int64
	Left  time.Duration // for a waiting ticket: until the holder's turn expires without renewal
}

// State is the state of a ticket.
type State int

// States.
const (
	Waiting State = iota
	Granted       // the ticket holds the turn
	Full          // too many tickets wait, and this one is not in the queue
)

// LeaseRequest requests an engine's lease, or holds it.
type LeaseRequest struct {
	Engine   string
	ID       string        // unique; letters and digits
	Who      string        // for people who inspect the store
	Lease    time.Duration // validity without renewal
	Takeover bool          // take the lease from its holder
}

// Store is the state that replicas share. Each method is atomic, idempotent and bounded in time. A failed step may
// have been carried out.
type Store interface {
	// Wait enqueues a ticket unless it waits or holds the turn, and renews it. For a new ticket the queue is full if
	// MaxWaiting tickets wait; for the first ticket of its tenant, if twice as many wait.
	Wait(ctx context.Context, t *Ticket) (Status, error)
	// Hold renews a turn, and restores it if the store has lost it.
	Hold(ctx context.Context, t *Ticket) error
	// Leave removes a ticket from the queue, or, with held, ends its turn.
	Leave(ctx context.Context, t *Ticket, held bool) error
	// Acquire acquires or renews a lease. It returns false while another request holds it.
	Acquire(ctx context.Context, c *LeaseRequest) (bool, error)
	// Release releases the lease.
	Release(ctx context.Context, c *LeaseRequest) error
	// Watch reports, until ctx ends, the tickets that got their turn and the requests that lost their lease. It may
	// lose notifications, and calls connected whenever that is possible.
	Watch(ctx context.Context, notify func(id string), connected func())
}
