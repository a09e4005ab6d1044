// Package affinity is the filter that finds the backend to which a call is pinned: that of its session, or of an
// artifact that it names. router/affinity knows pins, and the store that replicas share.
//
// It decides from memory in the steady state; else the call waits for the store. It only fills in Call.Pin: the filter
// pick takes the backend and its permit. It never picks a backend for calls without a session or artifact.
package affinity
