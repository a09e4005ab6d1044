// Package idempotency executes a call with a key only once, however often its caller repeats it and at any replica.
//
//	             Begin                          End
//	a call ──► claimed, with a lease ──► run ──► answered    repeats get the stored response
//	   │                                   ├───► too large   it was executed; its response is not stored
//	   │                                   ├───► unknown     whether it was executed is unknown
//	   │                                   └───► none        it provably did not start: the key is free
//	   └─ found: a repeat. It waits while the first call runs, at any replica.
//
// A claim has one owner. If its lease expires, the owner is dead or cut off: repeats fail
// because the outcome is unknown, and the call is not executed again. A late report from the owner still counts.
//
// A call runs to its end even when its caller leaves, so that a later repeat finds the response.
//
// The store holds a hash of the key, a keyed hash of the request, and the encrypted response.
package idempotency
