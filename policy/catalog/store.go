package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/toolschema"
)

// Store is what replicas share. Each method but Follow must end with its ctx.
type Store interface {
	// Follow calls changed whenever something may have changed, until ctx ends. It may lose
	// changes.
	Follow(ctx context.Context, changed func())
	// Changed says what has changed since a mark, the zero one being before everything.
	Changed(ctx context.Context, since Mark) (Changes, error)
	// Read answers each want, in their order.
	Read(ctx context.Context, wants []Want) ([]Shared, error)
	// Write changes what is shared of a capability. It does nothing, and says ErrTurnOver, when
	// the turn that the change was made in is not in force any more.
	Write(ctx context.Context, c Change) error
	// Accept makes hash the accepted one of a tool.
	Accept(ctx context.Context, capability, tool string, hash toolschema.Hash) error
	// Begin asks for the turn to discover the tools of a capability: nobody else gets it for
	// lease, or until a Change of it was written. It is not to be had while somebody has it, and
	// if the last one began less than within ago.
	Begin(ctx context.Context, capability string, lease, within time.Duration) (Turn, error)
}

// Rules are forgotten with the tools that they are about.
type Rules interface {
	// Forget deletes all rules about exactly this tool, whoever they are of. After an error it
	// is called again.
	Forget(ctx context.Context, capability, tool string) error
}

// Mark is a state of the store.
type Mark struct {
	Epoch   string // another one when everything was lost; "" while there is nothing
	Version int64  // one more with each change
}

// Changes is what a mark leads to.
type Changes struct {
	Now          Mark
	Everything   bool     // what has changed is not known
	Capabilities []string // that have changed
}

// Want asks for a capability.
type Want struct {
	Capability string
	Sum        string // of the discovered set that the reader has; it is not sent again
}

// Shared is what the store has of a capability.
type Shared struct {
	Accepted map[string]toolschema.Hash // by tool; also of those that are absent from the set in force
	Absent   map[string]bool            // tools of Accepted that were told as gone, and did not come back
	Sum      string                     // of the discovered set; "" there is none
	Set      []byte                     // the discovery tool's answer; nil where the reader has it
	Last     Last
}

// Last is what became of discoveries.
type Last struct {
	Succeeded time.Time // when one last did; zero: never
	Failed    time.Time // the same
	Error     string    // why the last one failed, in bounded words that hold nothing of an answer; "": it did not
}

// Change is one write.
type Change struct {
	Capability string
	Turn       string                     // that it is made in, and which it ends; "": in none
	Sum        string                     // of Set
	Set        []byte                     // what was discovered; nil: that stays as it is
	Tools      map[string]toolschema.Hash // accepted, where their tools have no accepted hash yet
	Gone       []string                   // tools that are absent from the set in force; what was accepted of them is kept
	Error      string                     // why the discovery of this turn failed; "": it did not
}

// Turn is who discovers.
type Turn struct {
	ID   string        // "": it is not to be had
	Busy bool          // then, because somebody has it; else somebody had it not long ago
	Wait time.Duration // then, until it may be to be had
}

// ErrTurnOver is the end of a change that came too late.
var ErrTurnOver = errors.New("another replica has taken over")
