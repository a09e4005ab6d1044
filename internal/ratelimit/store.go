package ratelimit

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// MaxAsks is how many scopes one exchange has at most.
const MaxAsks = 64

// Store is what replicas share of their tenants' limits.
type Store interface {
	// Exchange tells what this replica gives back and wants, of scopes of one tenant, and returns
	// what it gets of each. It may be carried out although it fails.
	Exchange(ctx context.Context, of Owner, asks []Ask) ([]Answer, error)
}

// Owner is a tenant. One that is made with the ID of another that was deleted begins anew.
type Owner struct {
	ID  string
	UID string // "" for a tenant of the file
}

// Name says which calls of a tenant a scope is of.
type Name struct {
	Per, Capability, Tool string // as in tenant.Limit, "" for any; all "": the tenant's calls
	Value                 string // the user, agent or capability, if it is per one
	Others                bool   // it is of all values for which there is no room
}

// Ask is what a replica says of a scope.
type Ask struct {
	Name   Name
	Bounds tenant.Bounds // Burst is set where CallsPerSecond is

	Want  int64 // calls to lease
	Back  int64 // calls that were leased, and are not needed
	Spent int64 // calls that were made without a lease
	Day   Spent // what was known of the budgets, should the store have lost it
	Month Spent

	Used  int64 // places that calls have
	Keep  int64 // places that the replica has, at least Used; 0 with all of these gives up everything
	Need  int64 // more places, for calls that wait
	Spare int64 // more places, for calls to come
	Seq   int64 // grows with each ask of this replica

	gaveUp bool // places that it had
	unmet  bool // more calls wait than the limit has places
}

// Spent is how much of a budget is used up.
type Spent struct {
	Period int64 // the number of the day or month, 0: not known
	Calls  int64 // leased ones among them
}

// Answer is what a replica gets.
type Answer struct {
	Calls int64         // leased, Want at most
	Short call.Limit    // why not all; meaningless if all
	Wait  time.Duration // until there is more

	Day, Month         Spent
	DayEnds, MonthEnds time.Duration // from now

	Places  int64 // that the replica has now; negative: a later ask came before this one
	Sharing int64 // how many replicas have or want some, where another one wants more; else 0
	Others  int64 // places that other replicas have

	own  bool  // it is the replica's own, not the store's
	fair int64 // then: places that it may have
}
