// Package authenticate is the filter that finds out who calls: from the call's credential, the certificate of its
// connection, or what a front door has found out for the request that the call is made for. Memory answers in the
// steady state; else the call waits for the store, as many of an address as there may be.
//
//	credentials.go  what a call says of its caller: one credential at most, which no backend gets
//	callers.go      whose a credential is; for front doors, too
//	filter.go       the filter
//
// It never decides what a caller may do: scope, resolve and authorize do.
package authenticate
