// Package files moves a large file through a gateway, up and down: over HTTP/1.1 and HTTP/2, by
// which it takes a second passage (gateway/frontdoor/files), and by gRPC. Nothing of it is kept: clients
// and the capability make zeros, and throw away what they get.
//
//	ways.go        clients
//	capability.go  a capability
package files
