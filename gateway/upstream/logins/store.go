package logins

import (
	"context"
	"errors"
	"time"
)

// ErrChanged is the error of a change of a login that has changed meanwhile.
var ErrChanged = errors.New("the login has changed meanwhile")

// Stored is what is stored for a fleet.
type Stored struct {
	Bond      string // names what the login is for
	Version   string // changes with each write; "" means that there is no login
	Value     []byte // encrypted; empty means that there is no login
	Challenge []byte // encrypted: what the server requires of the next login
}

// Store shares logins between replicas. Each method but Watch must end with its ctx.
type Store interface {
	// Read returns what is stored for a fleet and a bond. What is stored for another bond remains: a replica may still
	// have an earlier configuration.
	Read(ctx context.Context, fleet, bond string) (Stored, error)
	// Write stores a login with its challenge, unless another version than was is stored: then it returns ErrChanged.
	// It ends the lease with that id. "" means any version, and any lease.
	Write(ctx context.Context, fleet string, s Stored, was, lease string) error
	// Challenge stores a challenge for a bond, in place of that for another one.
	Challenge(ctx context.Context, fleet, bond string, challenge []byte) error
	// Lease gives the right to refresh the token of a version of a login to one id for a time. It reports whether id
	// has it, and returns ErrChanged if another version is stored.
	Lease(ctx context.Context, fleet, version, id string, d time.Duration) (bool, error)
	// Delete deletes what is stored for a fleet, and reports whether there was a login.
	Delete(ctx context.Context, fleet string) (bool, error)
	// Watch calls changed with each fleet whose login has changed, until ctx ends. It calls missed after each
	// interruption, when changes may have been lost. Neither may block.
	Watch(ctx context.Context, changed func(fleet string), missed func())
}
