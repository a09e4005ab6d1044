// Package authenticate implements the filter that authenticates callers: by the call's credential, the certificate of
// its connection, or the result of a front door for its HTTP request. In the steady state the answer is in memory;
// otherwise the call waits for the store. The number of waiting calls is limited by address.
//
//	credentials.go  reads the credential of a call: at most one, which is never forwarded to a backend
//	callers.go      looks up the caller of a credential, also for front doors
//	filter.go       the filter
//
// The filters scope, resolve and authorize decide what the caller may do.
package authenticate
