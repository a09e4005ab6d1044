// Package idempotency contains the filters of calls with an idempotency key, and the server that answers them. Such a
// call is served in the process: the first call continues to its backend, and a repeated call receives the stored
// response of the first. internal/idempotency holds the keys of all replicas.
//
//	key.go     finds a call's key, before authorize, which needs to know that there is one
//	filter.go  has the call served, and learns what became of it at its backend
//	server.go  answers it
//
// filter.go comes after authorize: a stored response is only for callers that may still make the call.
package idempotency
