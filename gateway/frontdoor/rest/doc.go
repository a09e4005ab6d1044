// Package rest is the JSON front door: the RPCs of the gateway as JSON over HTTP. It is an http.Handler on
// grpc-gateway's mux, with the routes of proto/capgate/v1, and a gRPC client of the gateway. The gateway
// authenticates, authorizes and routes by the forwarded headers.
//
//	rest.go      New, and a request's way: route, prepare, decode, call, encode
//	prepare.go   what a request must be before its body is read; headers and deadline
//	calls.go     the routes of tools, with the messages of capabilities; package invocation reads their JSON
//	invoke.go    ordinary calls of them, past the mux; conn.go the metadata of a request
//	marshaler.go the JSON of all other messages, which grpc-gateway serves
//	accept.go    which calls are answered as streams; prefer.go what a client would rather have
//	stream.go    a call's answer piece by piece; records.go how that is written
//	eventsource.go the streams that GET may begin
//	extension.go routes that other packages add; pages.go their lists
//	files.go     files, which are no JSON: package artifact carries them
//	problem.go   every error, as problem+json (RFC 9457)
//	events.go    server-sent events of approvals; feed.go has those of callers
//	pump.go      how a stream is written: at once, no faster than it is read, and with beats
//	documents.go a caller's OpenAPI document, and the page that shows it
//	compress.go  which answers are compressed; inflate.go requests that are
//	allow.go     which methods a path has
//
// The JSON text of arguments, configuration and results is forwarded unchanged, byte for byte. Therefore the messages'
// own JSON mapping (google.protobuf.Struct) is not used. The configuration contains secrets, so errors never quote
// values of the body.
package rest
