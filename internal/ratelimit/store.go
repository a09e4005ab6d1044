package ratelimit

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// MaxDemands is the greatest number of demands in one exchange.
const MaxDemands = 64

// Store is the state of tenants' limits that replicas share.
type Store interface {
	// Exchange sends the demands of one tenant's scopes, and returns a grant for each. It may be executed although it
	// fails. It is executed once at most, and not after a later one of the same tenant.
	Exchange(ctx context.Context, of Owner, demands []Demand) ([]Grant, error)
}

// Owner identifies a tenant. A tenant with the ID of a deleted one begins anew.
type Owner struct {
	ID  string
	UID string // "" for a tenant of the file
}

// Name identifies a scope of a tenant.
type Name struct {
	Per, Capability, Tool string // as in tenant.Limit, "" for any; all "": the tenant's calls
	Value                 string // the user, agent or capability of a limit per value
	Others                bool   // covers all values without their own scope
}

// Demand is a replica's demand and report of a scope.
type Demand struct {
	Name   Name
	Bounds tenant.Bounds // with CallsPerSecond Burst is set, too

	Want     int64     // calls to lease
	Returned int64     // leased calls that are returned
	Unleased int64     // calls made without a lease
	Day      BudgetUse // the known use of budgets, in case the store has lost it
	Month    BudgetUse
	Bucket   Bucket        // the known token bucket, in case the store has lost it
	Age      time.Duration // of Bucket

	Used   int64 // permits in use
	Retain int64 // permits that the replica keeps, at least Used; with all of these 0 it gives up everything
	Need   int64 // additional permits for waiting calls
	Spare  int64 // additional permits for later calls
	Seq    int64 // grows with each demand of this replica; an Exchange has the greatest of its demands

	gaveUp bool // it gave up permits
	unmet  bool // more calls wait than the limit has permits
}

// BudgetUse is the use of a budget.
type BudgetUse struct {
	Period int64 // number of the day or month, 0: unknown
	Calls  int64 // including leased ones
}

// Bucket is the token bucket of a rate. While a replica uses its own share, the bucket of the store refills, and calls
// of the share are charged to it later. Tokens that did not fit pay for them first: a bucket that was full all the time
// has lost as many as it would have granted.
type Bucket struct {
	Tokens int64 // negative: a debt
	Spills int64 // one, and the tokens that did not fit, less those that paid for calls without a lease; 0: unknown
}

// DebtTime is the longest time for which calls without a lease delay later calls of a rate. More of them are forgiven.
const DebtTime = 5 * time.Second

// Grant is the store's response to a Demand.
type Grant struct {
	Calls int64         // leased calls, at most Want
	Short call.Limit    // the limit, if Calls < Want
	Wait  time.Duration // until more are available

	Bucket             Bucket
	Day, Month         BudgetUse
	DayEnds, MonthEnds time.Duration // from now

	Permits int64 // of the replica
	Sharing int64 // replicas that have or want permits, if another one wants more; else 0
	Others  int64 // permits of other replicas

	local bool  // granted by the replica itself
	fair  int64 // with local: the replica's share
}
