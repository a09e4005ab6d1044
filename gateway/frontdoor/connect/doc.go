// Package connect lets browsers, and whoever else has HTTP but no gRPC, call what gRPC clients call:
// by gRPC-Web, also its base64 form, and by the Connect protocol, over HTTP/1.1 and HTTP/2. It is
// an http.Handler in front of another one, and reaches the gateway only as a gRPC client of it. So
// it decides nothing: identity, policy and routing are the gateway's, by the metadata passed on.
//
//	web.go      New, and which requests are of these protocols
//	target.go   the method that a request calls, and its schema
//	pass.go     one call: messages there, messages back, status
//	codec.go    messages are bytes; only JSON needs to know what they mean
//	metadata.go headers ↔ metadata
//	refusal.go  statuses ↔ errors of Connect, and what is refused here
//	text.go     the base64 form
//	patient.go  how long a client may take to read
//	held.go     how much of a request is held (gateway/frontdoor/bodybudget), and why no more
//
// The protocols themselves are connect-go's. Messages go through as they are, whatever their
// type, so services that only a fleet knows are called too. One of JSON is translated by the
// schema, which is there for the services that the gateway was built with.
//
// A client says all that it has to say before it hears the answer: nothing reads and writes at the
// same time here, as browsers do not either. Who needs that speaks gRPC.
package connect
