// Package ratelimit limits tenants' calls: calls per second (a token bucket), concurrent calls, and quotas of days
// and months (budgets), for a tenant as a whole and for some of its calls.
//
//	call ─► Limiter.Take ─► tenantState ─► scope (one limit, perhaps of one user)
//	                                          │ calls    leased, each for one call
//	                                          │ permits  leased, each for one call at a time
//	                                     exchange ─► Store, shared by all replicas
//
// A call takes from memory what its replica has leased. Before that is used up the replica requests more from the store
// in the background: as much as it recently used in half a second, but at most a quarter of a second of the limit, or a
// 64th of a budget. A call waits for the store only if nothing is left and the store has not just denied more.
//
// Leased calls are gone from the store until they are returned. So all replicas together admit, in any time T, at
// most burst + calls_per_second·T + one lease for each replica. They never exceed a budget, except by calls leased
// before midnight and made just after, and as follows.
//
// A replica at first asks for at most an even share of the permits, and for more a twentieth of a second later:
// permits of long calls cannot be redistributed when other calls come.
//
// While the store does not respond within a tenth of a second, each replica uses its share: the limit divided by the
// last known number of replicas, and the last known rest of a budget or a token bucket, divided likewise; of an unknown
// one a tenth of its share. The store learns of that use when it is back, and charges it: the bound of a rate holds
// also if the store comes and goes. Only a replica that lacks the store alone exceeds it, by its share, until it
// reports. A replica that dies takes a lease with it: its permits
// return after five seconds, and leased calls of budgets are lost.
package ratelimit
