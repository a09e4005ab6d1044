// Package retry has what decides about further attempts of a call: the retry predicate for answers (Again), that for
// attempts that did not start (Repeat), and the filter that waits for a backend's pushback (the row "backoff").
//
// Only calls that provably did not start, or are declared idempotent, are retried, within the fleet's retry budget. The
// driver begins the attempt. From the third attempt on a call goes to a backend that it has not tried.
package retry
