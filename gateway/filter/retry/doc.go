// Package retry decides about further attempts of a call: with a retry predicate for responses (Again), another for
// attempts that did not start (Repeat), and a filter that waits for a backend's pushback (the row "backoff").
//
// Only calls that provably did not start, or are declared idempotent, are retried, within the fleet's retry budget.
// The driver starts the attempt. From the third attempt on, a call uses backends that it has not tried.
package retry
