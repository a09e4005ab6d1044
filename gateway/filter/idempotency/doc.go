// Package idempotency has the filters of calls with an idempotency key, and the server that answers them. Such a call
// is served in the process: a repeat gets the stored response of the first call, and the first call is continued at
// its backend. internal/idempotency has the service that knows of all replicas' keys.
//
//	key.go     finds a call's key, before authorize, which needs to know that there is one
//	filter.go  has the call served, and learns what became of it at its backend
//	server.go  answers it
//
// The filters come after authorize: a stored response is for those who may make the call now.
package idempotency
