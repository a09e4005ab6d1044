// Package authenticate is the filter that authenticates callers: by the call's credential, the certificate of its
// connection, or the result of a front door for its HTTP request. In the steady state the answer is in memory;
// otherwise the call waits for the store. The number of waiting calls is limited by address.
//
//	credentials.go  what a call says of its caller: one credential at most, which no backend gets
//	callers.go      whose a credential is; for front doors, too
//	filter.go       the filter
//
// What a caller may do is decided by scope, resolve and authorize.
package authenticate
