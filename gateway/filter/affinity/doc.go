// Package affinity implements the filter that looks up the backend to which a call is pinned: that of its session, or
// of an artifact that it names. router/affinity holds the pins, in memory and in the shared store.
//
// In the steady state the lookup is from memory; otherwise the call waits for the store. The filter only sets
// Call.Pin; the filter pick takes the backend and its permit.
package affinity
