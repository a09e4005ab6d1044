package turns

import (
	"context"
	"time"
)

// Ticket is who waits for a turn, or has it.
type Ticket struct {
	Engine, Tenant string
	ID             string        // no other has it; letters and digits
	Lease          time.Duration // for how long it is known without a word
	Most           int           // that may wait for the engine
	Seq            int64         // its place in the order of arrival, as Wait said; 0: it is new
	Wary           bool          // the store may have lost who has the turn
}

// Standing is how a ticket stands.
type Standing struct {
	State State
	Seq   int64
	Left  time.Duration // of who waits: until who has the turn loses it, unless it is heard of
}

// State says it in a word.
type State int

// The states.
const (
	Waits State = iota
	Mine        // it has the turn
	Full        // it is not in line: too many wait
)

// Claim is who wants an engine's lease, or has it.
type Claim struct {
	Engine   string
	ID       string        // no other has it; letters and digits
	Who      string        // for people who look into the store
	Lease    time.Duration // for how long it is known without a word
	Takeover bool          // also from who has it
}

// Store is what replicas share. Each method is one step and ends in bounded time. A step that fails
// may have been taken; to take it twice is to take it once.
type Store interface {
	// Wait puts a ticket in line unless it is there or has the turn, and renews it. A new one
	// finds the line full if Most wait; the first of its tenant if twice as many do.
	Wait(ctx context.Context, t *Ticket) (Standing, error)
	// Hold renews a turn, and lets the store know of it again if it was lost.
	Hold(ctx context.Context, t *Ticket) error
	// Leave takes a ticket out of the line, or, held, ends its turn.
	Leave(ctx context.Context, t *Ticket, held bool) error
	// Seize gets or renews a lease. It is false while another has it.
	Seize(ctx context.Context, c *Claim) (bool, error)
	// Yield gives it back.
	Yield(ctx context.Context, c *Claim) error
	// Follow tells until ctx ends which tickets were given their turn, and which claims were
	// taken over. It may lose some, and says with connected when it may have.
	Follow(ctx context.Context, told func(id string), connected func())
}
