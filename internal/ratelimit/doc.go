// Package ratelimit says whether a tenant may make one more call: by calls per second, calls at
// once, and budgets of days and months, of the tenant as a whole and of some of its calls.
//
//	call ─► Limiter.Take ─► account (a tenant) ─► scope (one limit, perhaps of one user)
//	                                                │ calls    leased, each good for one call
//	                                                │ places   leased, each good for one call at a time
//	                                           exchange ─► Store: what all replicas share
//
// A call takes from memory what its replica has leased. Before that is used up the replica asks the
// store for more, beside the calls: as much as it used of late in half a second, and never more than a
// quarter of a second of the limit, or a 64th of a budget. Only a call that finds nothing, and of
// which the store has not just said that there is nothing, waits for an answer.
//
// What the store gives is gone there until it is given back. So all replicas together admit, in any
// time T, at most burst + calls_per_second·T + one lease for each replica. Of a budget they never
// admit more than it is, but for calls leased before midnight and made just after, and for what
// follows.
//
// Of places a replica asks for no more than an even part at first, and for more a twentieth of a second
// later: what long calls have cannot be divided any more when others come.
//
// While the store does not answer within a tenth of a second each replica goes by its share: the limit
// divided by the replicas that there were last, and of a budget what was left of it then, divided
// likewise; of one that the store never told it of, a tenth of its share. The store is told of it
// when it is back. A replica that dies takes a lease with it: its places come back after five
// seconds, and of budgets the lease is lost.
package ratelimit
