// Package problem is how errors are told over HTTP, at both ports: as problem+json (RFC 9457), with a type
// that leads to a page which explains it, and with the id of the request.
//
//	problem.go   what a problem holds, and how it is written
//	requestid.go the id of each request: the caller's, or one made here
//	trace.go     the trace of each request: the caller's, or one that begins here
//	page.go      the page of all reasons, made of docs/errors.md
//	mux.go       problems for what no pattern of an http.ServeMux takes
//
// It decides nothing, but which ids of requests are too long.
package problem
