// Package files transfers a large file through a gateway, up and down: over HTTP/1.1 and HTTP/2, where
// gateway/frontdoor/files turns the request into a second call, and over gRPC. The file is not stored: clients and the
// capability generate zeros, and discard the bytes that they receive.
//
//	ways.go        clients
//	capability.go  a capability
package files
