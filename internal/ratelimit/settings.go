package ratelimit

import (
	"math/rand/v2"
	"time"

	"github.com/capgate/capgate/internal/call"
)

const (
	horizon       = 500 * time.Millisecond // of calls that a replica has at hand
	leaseOfRate   = 4                      // part of a second's calls that a replica has at hand, at most
	leaseOfBudget = 64                     // the same of a budget
	patience      = 100 * time.Millisecond // how long a call waits for the store
	longest       = 10 * time.Second       // that the store is not asked after it said that there is nothing
	crowded       = 100 * time.Millisecond // the same of places
	retryLeast    = 20 * time.Millisecond  // that callers are told to wait
	retryCrowded  = time.Second            // what is told to who finds no place
	tickEvery     = time.Second            // places are renewed, and what nobody needs is given back
	leased        = 5 * time.Second        // how long places are a replica's that is not heard of
	idleTicks     = 2                      // without a call, until what is leased is given back
	goneTicks     = 60                     // until a tenant is forgotten
	maxWaiting    = 10_000                 // calls that wait for the store
	maxExchanges  = 16                     // at once
	spareRounds   = 3                      // exchanges that one call waits for, besides one for each limit
	ofTenant      = 10_000                 // users and so on of a tenant that have scopes of their own at once
	ofAll         = 100_000                // the same of all tenants
)

// pause is how long the store is left alone, at least, after it said that there is nothing: long enough
// for some calls to gather, and not the same for all replicas.
func pause() time.Duration { return 20*time.Millisecond + rand.N(10*time.Millisecond) }

var refusedWaiting = &call.Refusal{Kind: call.Unavailable, Reason: "LIMITS_OVERLOADED", RetryAfter: time.Second,
	Message: "too many calls wait to know whether their tenants may make them"}
