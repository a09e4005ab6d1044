// Package checks has the filters without state: each is a function that continues or rejects a call, or notes
// something.
//
//	wellformed.go  paths and headers that two programs could read differently
//	method.go      methods that the fleet does not list
//	restrict.go    callers that may do one thing only: signed URLs
//	session.go     the session of a call
//	listener.go    what the listener says of all its calls
//	artifacts.go   the artifacts that a call names
//	deadline.go    the deadline, from the client's timeout and the fleet's
//
// They look at the call alone, and ask no service.
package checks
