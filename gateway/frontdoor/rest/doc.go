// Package rest implements the JSON front door: the RPCs of the gateway as JSON over HTTP. It is an http.Handler on
// grpc-gateway's mux, with the routes of proto/capgate/v1, and a gRPC client of the gateway. The gateway
// authenticates, authorizes and routes by the forwarded headers.
//
//	rest.go      New, and the steps of a request: route, prepare, decode, call, encode
//	prepare.go   checks before a request's body is read; headers and deadline
//	calls.go     the routes of tools; package invocation reads their JSON
//	invoke.go    unary calls of tools, without the mux; conn.go the metadata of a request
//	marshaler.go the JSON of all other messages, which grpc-gateway serves
//	accept.go    decides whether a call is answered as a stream; prefer.go the Prefer header
//	stream.go    streaming responses of calls; records.go their encoding
//	eventsource.go streams that GET may start
//	extension.go routes that other packages add; pages.go their lists
//	features.go  prompts and resources of MCP servers; resource.go their contents
//	files.go     files, by package frontdoor/files
//	problem.go   all errors as problem+json (RFC 9457)
//	events.go    server-sent events of approvals; feed.go has those of callers
//	pump.go      writes a stream: immediately, with backpressure and heartbeats
//	documents.go a caller's OpenAPI document, and its page
//	compress.go  compresses responses; inflate.go decompresses requests
//	allow.go     the methods of a path
//
// The JSON text of arguments, configuration and results is forwarded unchanged, byte for byte. Therefore the messages'
// own JSON mapping (google.protobuf.Struct) is not used. The configuration contains secrets, so errors never quote
// values of the body.
package rest
