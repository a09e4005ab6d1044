package ratelimit

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

const (
	horizon          = 500 * time.Millisecond // for which a replica keeps calls leased
	leaseOfRate      = 4                      // divisor of a second's calls: the greatest lease
	leaseOfBudget    = 64                     // divisor of a budget: the greatest lease
	storeTimeout     = 100 * time.Millisecond // longest wait of a call for the store
	maxDenial        = 10 * time.Second       // longest validity of a denial of calls
	concurrentDenial = 100 * time.Millisecond // validity of a denial of permits
	retryLeast       = 20 * time.Millisecond  // least retry delay for callers
	retryConcurrent  = time.Second            // retry delay without a permit
	tickEvery        = time.Second            // interval of renewals
	permitTTL        = 5 * time.Second        // lifetime of a silent replica's permits
	idleTicks        = 2                      // ticks without a call after which leases are returned
	goneTicks        = 60                     // ticks after which a tenant is forgotten
	maxWaiting       = 10_000                 // waiting calls
	maxExchanges     = 16                     // concurrent exchanges
	spareRounds      = 3                      // exchanges for one call, besides one for each limit
	maxTenantScopes  = 10_000                 // values of a tenant with scopes of their own
	maxScopes        = 100_000                // values of all tenants with scopes of their own
)

// pause returns the least validity of a denial: long enough for some calls to gather, and different at each replica.
func (l *Limiter) pause() time.Duration {
	return 20*time.Millisecond + l.cfg.Jitter(10*time.Millisecond)
}

var refusedWaiting = &call.Refusal{Kind: call.Unavailable, Reason: "LIMITS_OVERLOADED", RetryAfter: time.Second,
	Message: "too many calls wait for the limits of their tenants; try again later"}
