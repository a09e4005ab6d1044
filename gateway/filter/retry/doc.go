// Package retry has what decides about further attempts of a call: the retry predicate for answers (Again), that for
// attempts that did not start (Repeat), and the filter that waits for a backend's pushback (the row "backoff").
//
// Only calls that provably did not start, or are declared idempotent, are retried, within the fleet's retry budget. The
// driver begins the attempt; nothing here picks its backend.
package retry
