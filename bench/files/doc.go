// Package files moves a large file through a gateway, up and down: over HTTP/1.1 and HTTP/2, where
// gateway/frontdoor/files makes a second call of it, and over gRPC. The file is kept nowhere: clients and the
// capability make zeros, and discard the bytes that they receive.
//
//	ways.go        clients
//	capability.go  a capability
package files
