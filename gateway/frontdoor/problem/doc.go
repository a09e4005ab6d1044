// Package problem writes errors over HTTP, at both ports: as problem+json (RFC 9457), with a type that refers to a
// page of explanations, and with the id of the request.
//
//	problem.go   the fields of a problem, and its encoding
//	requestid.go the id of each request: the caller's or a new one
//	trace.go     the trace of each request: the caller's or a new one
//	page.go      the page of all reasons, rendered from docs/errors.md
//	plain.go     replaces errors in plain text by problems
//	value.go     removes quoted input from the errors of libraries
//	mux.go       problems for requests without a pattern in an http.ServeMux
package problem
