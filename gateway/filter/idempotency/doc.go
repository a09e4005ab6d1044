// Package idempotency contains the filters of calls with an idempotency key, and the server that answers them. Such a
// call is served in the process: the first call continues to its backend, and a repeated call receives the stored
// response of the first. internal/idempotency holds the keys of all replicas.
//
//	key.go     finds a call's key; runs before authorize, which depends on whether a key exists
//	filter.go  has the call served, and records its result at the backend
//	server.go  answers the call
//
// filter.go comes after authorize: a stored response is only for callers that may still make the call.
package idempotency
