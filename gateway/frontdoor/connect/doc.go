// Package connect serves gRPC-Web, also in base64, and the Connect protocol over HTTP/1.1 and HTTP/2, for browsers and
// other clients without gRPC. It is a web.Door. It makes its calls on local streams of the relay, as bytes. The gateway
// authenticates, authorizes and routes by the forwarded metadata.
//
//	connect.go  New, and detection of requests of these protocols
//	target.go   the method that a request calls, and the form of its messages
//	schema.go   the schemas of methods
//	unary.go    calls of methods without streams: Connect without envelopes, and gRPC-Web
//	stream.go   calls of methods with streams, and of unknown methods
//	frames.go   messages with envelopes in requests
//	reply.go    messages with envelopes in responses
//	codec.go    messages as bytes; only JSON needs their schema
//	flat.go     JSON of messages with simple fields, such as those of capabilities
//	gzip.go     compressed messages
//	metadata.go headers ↔ metadata
//	failure.go  statuses as errors of both protocols
//	refusal.go  requests rejected here
//	unread.go   requests that cannot be read
//	text.go     the base64 form
//	held.go     memory of a request (gateway/frontdoor/bodybudget)
//
// Messages of any type are forwarded unchanged, so clients can also call services that only a fleet knows. JSON
// messages are translated with the schemas of the gateway's own services and of the protocols of capabilities. Tests
// compare the form of errors with that of connect-go.
//
// A request is read completely before its response is written, as in browsers. Bidirectional streaming needs gRPC.
package connect
