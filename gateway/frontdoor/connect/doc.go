// Package connect serves gRPC-Web, also in base64, and the Connect protocol over HTTP/1.1 and HTTP/2, for browsers and
// other clients without gRPC. It is a web.Door, and a gRPC client of the gateway. The gateway authenticates,
// authorizes and routes by the forwarded metadata.
//
//	connect.go  New, and detection of requests of these protocols
//	target.go   the method that a request calls, and its schema
//	direct.go   short unary requests, without connect-go
//	pass.go     one call: requests, responses, status
//	codec.go    messages as bytes; only JSON needs their schema
//	metadata.go headers ↔ metadata
//	refusal.go  statuses ↔ Connect errors, and requests rejected here
//	unread.go   requests that connect-go cannot read
//	text.go     the base64 form
//	held.go     memory of a request (gateway/frontdoor/bodybudget)
//
// connect-go implements the protocols, except for short unary requests of Connect without compression. Messages of any
// type are forwarded unchanged, so clients can also call services that only a fleet knows. JSON messages are translated
// with the schemas of the services that the gateway was built with.
//
// A request is read completely before its response is written, as in browsers. Bidirectional streaming needs gRPC.
package connect
